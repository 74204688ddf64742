//! Which address of a ping is requested. A ping is unsigned: without this, anybody could have requests made in our name, with a user's token on them.

use url::Url;

use super::GarminType;

/// The longest window of uploads that a ping may ask for, in seconds: what Garmin gives at once.
const WINDOW_SECONDS_MAX: u64 = 24 * 60 * 60;
const UPLOAD_START: &str = "uploadStartTimeInSeconds";
const UPLOAD_END: &str = "uploadEndTimeInSeconds";
/// What else such an address has: a token of its own, which says nothing about where it leads.
const TOKEN: &str = "token";

/// Where Garmin's data is, below the address of its API.
pub const GARMIN_PATH: &str = "/wellness-api/rest";

/// Why an address is not requested, in words for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackFault {
    /// It is no URL, or one that could be read in two ways.
    #[error("the ping's callbackURL is not a plain URL")]
    NotPlain,
    /// It leads elsewhere.
    #[error("the ping's callbackURL does not lead to the configured Garmin API")]
    OtherServer,
    /// It asks for something else than the ping is about.
    #[error("the ping's callbackURL is not the path of its data type")]
    OtherPath,
    /// It does not ask for a window of at most a day.
    #[error("the ping's callbackURL must ask for uploads of at most 24 hours")]
    Window,
}

/// The address to request: the same server as `api`, exactly the path of the data, a window of at most a day, and nothing else.
///
/// # Errors
/// [`CallbackFault`] if it is any other.
pub fn check(api: &Url, data: GarminType, written: &str) -> Result<Url, CallbackFault> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let url = Url::parse(written).map_err(|_| CallbackFault::NotPlain)?;
    let has_extras = !url.username().is_empty() || url.password().is_some() || url.fragment().is_some();
    // What the parser had to correct, another program might correct otherwise.
    if !written.bytes().all(is_plain) || has_extras || url.as_str() != written {
        return Err(CallbackFault::NotPlain);
    }
    if (url.scheme(), url.host(), url.port()) != (api.scheme(), api.host(), api.port()) {
        return Err(CallbackFault::OtherServer);
    }
    if url.path() != format!("{}{GARMIN_PATH}/{}", api.path().trim_end_matches('/'), data.as_str()) {
        return Err(CallbackFault::OtherPath);
    }
    if has_good_window(&url) { Ok(url) } else { Err(CallbackFault::Window) }
}

fn has_good_window(url: &Url) -> bool {
    let (mut start, mut end, mut has_others) = (Vec::new(), Vec::new(), false);
    for (name, value) in url.query_pairs() {
        let seconds = value.parse::<u64>().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
        match &*name {
            UPLOAD_START => start.push(seconds),
            UPLOAD_END => end.push(seconds),
            TOKEN => {}
            _ => has_others = true,
        }
    }
    let ([Some(start)], [Some(end)]) = (start.as_slice(), end.as_slice()) else { return false };
    !has_others && end.checked_sub(*start).is_some_and(|length| length <= WINDOW_SECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "https://apis.garmin.com";

    fn checked(api: &str, url: &str) -> Result<(), CallbackFault> {
        check(&Url::parse(api).expect("it is one"), GarminType::Dailies, url).map(|found| assert_eq!(found.as_str(), url))
    }

    #[test]
    fn only_the_data_itself_is_requested() {
        let window = "uploadStartTimeInSeconds=1234567890&uploadEndTimeInSeconds=1234654290";
        let path = "/wellness-api/rest/dailies";
        for good in [
            format!("{API}{path}?{window}&token=XXXXX"),
            format!("{API}{path}?{window}"),
            format!("{API}{path}?token=a%20b&uploadEndTimeInSeconds=5&uploadStartTimeInSeconds=5"),
        ] {
            assert_eq!(checked(API, &good), Ok(()), "{good}");
        }
        for (bad, fault) in [
            // Elsewhere.
            (format!("http://apis.garmin.com{path}?{window}"), CallbackFault::OtherServer),
            (format!("https://apis.garmin.com.evil.example{path}?{window}"), CallbackFault::OtherServer),
            (format!("https://apis.garmin.com:8443{path}?{window}"), CallbackFault::OtherServer),
            (format!("https://169.254.169.254{path}?{window}"), CallbackFault::OtherServer),
            (format!("https://[::1]{path}?{window}"), CallbackFault::OtherServer),
            // Read in two ways.
            (format!("https://apis.garmin.com@evil.example{path}?{window}"), CallbackFault::NotPlain),
            (format!("https://user:pass@apis.garmin.com{path}?{window}"), CallbackFault::NotPlain),
            (format!("https:\\\\apis.garmin.com{path}?{window}"), CallbackFault::NotPlain),
            (format!("https://APIS.garmin.com{path}?{window}"), CallbackFault::NotPlain),
            (format!("https://apis.garmin.com:443{path}?{window}"), CallbackFault::NotPlain),
            (format!("{API}{path}?{window}#x"), CallbackFault::NotPlain),
            (format!("{API}/x/..{path}?{window}"), CallbackFault::NotPlain),
            (format!(" {API}{path}?{window}"), CallbackFault::NotPlain),
            (format!("{API}{path}?{window}&token=a\r\nX: y"), CallbackFault::NotPlain),
            ("dailies".to_owned(), CallbackFault::NotPlain),
            (String::new(), CallbackFault::NotPlain),
            // Something else.
            (format!("{API}/wellness-api/rest/sleeps?{window}"), CallbackFault::OtherPath),
            (format!("{API}/wellness-api/rest/dailies/?{window}"), CallbackFault::OtherPath),
            (format!("{API}/wellness-api/rest//dailies?{window}"), CallbackFault::OtherPath),
            (format!("{API}/wellness-api/rest/dailies%2f..%2fuser?{window}"), CallbackFault::OtherPath),
            (format!("{API}/wellness-api/rest/user/registration?{window}"), CallbackFault::OtherPath),
            // Too much.
            (format!("{API}{path}"), CallbackFault::Window),
            (format!("{API}{path}?token=x"), CallbackFault::Window),
            (format!("{API}{path}?uploadStartTimeInSeconds=0&uploadEndTimeInSeconds=86401"), CallbackFault::Window),
            (format!("{API}{path}?uploadStartTimeInSeconds=2&uploadEndTimeInSeconds=1"), CallbackFault::Window),
            (format!("{API}{path}?uploadStartTimeInSeconds=-1&uploadEndTimeInSeconds=1"), CallbackFault::Window),
            (format!("{API}{path}?uploadStartTimeInSeconds=+1&uploadEndTimeInSeconds=1"), CallbackFault::Window),
            (format!("{API}{path}?{window}&uploadEndTimeInSeconds=9999999999"), CallbackFault::Window),
            (format!("{API}{path}?{window}&callback=x"), CallbackFault::Window),
        ] {
            assert_eq!(checked(API, &bad), Err(fault), "{bad}");
        }
    }

    #[test]
    fn an_api_behind_a_path_and_a_port_is_the_same_server() {
        let url = "http://127.0.0.1:9090/garmin/wellness-api/rest/dailies?uploadStartTimeInSeconds=1&uploadEndTimeInSeconds=2";
        assert_eq!(checked("http://127.0.0.1:9090/garmin/", url), Ok(()));
        assert_eq!(checked("http://127.0.0.1:9090/", url), Err(CallbackFault::OtherPath));
        assert_eq!(checked("http://127.0.0.1:9091/garmin", url), Err(CallbackFault::OtherServer));
    }
}
