//! The fields of a recipe, as texts: what a row of the table of kinds holds, and what the owner of a `custom` source writes.
//!
//! The grammar of each field is described on it. [`Recipe::compile`](super::Recipe::compile) reads them; nothing else does.

use super::RecipeFault;

/// How a provider's requests are verified, split and answered. An empty text means that the field is absent.
///
/// A *place* is where a value stands in a request: `Header-Name`, `Header-A|Header-B`, `query:name`, `form:name` or `body:/pointer`.
/// A *pick* names a value of an item: `H:Header`, `/pointer`, `root:/pointer`, `key`, `path` or `'text'`; `+` joins, and of several between `|` the first that is
/// present counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecipeFields<'a> {
    /// A MAC by a shared secret: `sha1|sha256|sha512|plain-sha256`, then `hex|base64|base64url`. `plain-sha256` hashes a text that must hold `{secret}`.
    pub mac: &'a str,
    /// A signature by a public key: `ed25519|ecdsa-p256|rsa-sha256|rsa-sha1`, then `hex|base64|base64url`. Algorithms between `|` are tried in turn.
    pub key_sig: &'a str,
    /// The secret itself arrives: a place, `basic` (`user:password`), or `path` (behind the source in the URL); `prefix='Bearer '` after a header.
    pub token: &'a str,
    /// A JSON web token stands at `sig`: `HS256|RS256|ES256`, then `iss=a,b`, `aud=audience`, `email=app_id`, `body_hex=claim` or `body_base64=claim`, in any order.
    pub jwt: &'a str,
    /// Where the public key is fetched from: `cert <place> hosts=*.example.com`, or `jwks https://…`. Absent: the secrets of the source are the keys.
    pub key_from: &'a str,
    /// How a secret is written: `raw` (default), `base64`, `whsec`, `hex`, `sha1`, `raw+&`, `captured`, `spki`.
    pub key_format: &'a str,
    /// The place of the signature, then `prefix=sha256=`, `kv=, v1` (the pairs of a list), `list=' ' v1,` (items with a prefix), `list=& after=|`,
    /// or `H-1..100` as the name of a family of headers.
    pub sig: &'a str,
    /// The place of the timestamp (`kv:t` within the signature's pairs), its unit (`s`, `ms`, `rfc3339`, `http-date`), and how old it may be (`5m`); without that it
    /// is only signed.
    pub ts: &'a str,
    /// The signed text: `{body} {ts} {id} {url} {method} {secret} {form} {app_id} {crc32} {sha256hex} {h:Name} {b:/pointer} {f:field} {n:Member}`; `{or}` between
    /// alternatives.
    pub over: &'a str,
    /// How the URL is signed: `port` (with and without the default port), `hubspot` (some percent-codes decoded), `body_hash=name` (a parameter with the hash of a
    /// body that is no form).
    pub url: &'a str,
    /// Whether a signature must be there: `always` (default), `if_secret` (where a secret is set), `if_present` (verified where a secret is set and it is there).
    pub require: &'a str,
    /// What else must be true, between `;`: `/pointer in a,b` (else 400), `/pointer = subscription_id` or `/pointer = app_id` (where set, else 401).
    pub check: &'a str,
    /// What the body is: `json` (default), `form`, `any`, `jwt`.
    pub body: &'a str,
    /// Where the items of a batch are: `/events/*`, `/*`, `/{key}/*`, `/items/*/inner`.
    pub each: &'a str,
    /// The type of an item: picks.
    pub event_type: &'a str,
    /// The provider's id of an item: picks.
    pub id: &'a str,
    /// The provider's user that an item is about: picks.
    pub user: &'a str,
    /// Requests that prove the URL instead of carrying an event, between `;`. See [`HANDSHAKES`](super::HANDSHAKES).
    pub handshake: &'a str,
    /// The answer to what was accepted: a status, then `text …`, `json …` or `xml …`. Default: `200`.
    pub ok: &'a str,
    /// The largest body: `3M`, `512K`, or bytes.
    pub max_body: &'a str,
    /// How old a timestamp may be, instead of what `ts` says: `5m`.
    pub tolerance: &'a str,
}

/// The names of the fields, as the API spells them.
const NAMES: [&str; 21] = [
    "mac",
    "key_sig",
    "token",
    "jwt",
    "key_from",
    "key_format",
    "sig",
    "ts",
    "over",
    "url",
    "require",
    "check",
    "body",
    "each",
    "type",
    "id",
    "user",
    "handshake",
    "ok",
    "max_body",
    "tolerance",
];

/// No field at all: the rest of a row that names a few.
pub(super) const NONE: RecipeFields<'static> = RecipeFields {
    mac: "",
    key_sig: "",
    token: "",
    jwt: "",
    key_from: "",
    key_format: "",
    sig: "",
    ts: "",
    over: "",
    url: "",
    require: "",
    check: "",
    body: "",
    each: "",
    event_type: "",
    id: "",
    user: "",
    handshake: "",
    ok: "",
    max_body: "",
    tolerance: "",
};

impl<'a> RecipeFields<'a> {
    /// Reads fields by their names. A name that no field has, or that comes twice, is a fault.
    ///
    /// # Errors
    /// Every wrong name.
    pub fn from_pairs(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Vec<RecipeFault>> {
        let (mut fields, mut faults) = (Self::default(), Vec::new());
        for (name, text) in pairs {
            match fields.slot(name) {
                Some(slot) if slot.is_empty() => *slot = text,
                Some(_) => faults.push(RecipeFault::new("recipe", format!("holds `{}` twice", shown(name)))),
                None => faults.push(RecipeFault::new("recipe", format!("has no field `{}`; there are {}", shown(name), NAMES.join(", ")))),
            }
        }
        if faults.is_empty() { Ok(fields) } else { Err(faults) }
    }

    /// The fields that are present, by their names, in a fixed order.
    pub fn pairs(mut self) -> Vec<(&'static str, &'a str)> {
        NAMES.into_iter().filter_map(|name| self.slot(name).map(|slot| (name, *slot))).filter(|(_, text)| !text.is_empty()).collect()
    }

    fn slot(&mut self, name: &str) -> Option<&mut &'a str> {
        Some(match name {
            "mac" => &mut self.mac,
            "key_sig" => &mut self.key_sig,
            "token" => &mut self.token,
            "jwt" => &mut self.jwt,
            "key_from" => &mut self.key_from,
            "key_format" => &mut self.key_format,
            "sig" => &mut self.sig,
            "ts" => &mut self.ts,
            "over" => &mut self.over,
            "url" => &mut self.url,
            "require" => &mut self.require,
            "check" => &mut self.check,
            "body" => &mut self.body,
            "each" => &mut self.each,
            "type" => &mut self.event_type,
            "id" => &mut self.id,
            "user" => &mut self.user,
            "handshake" => &mut self.handshake,
            "ok" => &mut self.ok,
            "max_body" => &mut self.max_body,
            "tolerance" => &mut self.tolerance,
            _ => return None,
        })
    }
}

/// The short form of a recipe: a MAC of the body in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HmacFields<'a> {
    /// The header that holds the signature.
    pub header: &'a str,
    /// `sha1`, `sha256` or `sha512`.
    pub algorithm: &'a str,
    /// `hex`, `base64` or `base64url`.
    pub encoding: &'a str,
    /// What stands before the signature, such as `sha256=`; may be empty.
    pub prefix: &'a str,
}

impl HmacFields<'_> {
    /// The texts of `mac` and `sig` that say the same. Compiled with `over` = `{body}`, they are checked like any recipe.
    pub fn mac_and_sig(&self) -> (String, String) {
        let mac = format!("{} {}", self.algorithm, self.encoding);
        let sig = if self.prefix.is_empty() { self.header.to_owned() } else { format!("{} 'prefix={}'", self.header, self.prefix) };
        (mac, sig)
    }
}

/// How much of a stranger's text a message repeats.
const SHOWN_CHARS_MAX: usize = 64;

/// A text that a message repeats: cut, and without control characters.
pub(super) fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}
