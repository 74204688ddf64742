//! How a request proves whose it is: `mac`, `key_sig`, `token`, `jwt` and `key_from` of a recipe.

use super::{
    Scope,
    place::{Place, SignaturePlace},
    template::Template,
};
use crate::inbound::{
    RecipeFault, RecipeFields,
    fields::shown,
    text::{parameter_name, words},
};

/// How a request proves whose it is.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum Mechanism {
    /// Not at all.
    None,
    Mac(MacRule),
    Key(KeyRule),
    Token(TokenPlace),
    Jwt(JwtRule),
}

/// A MAC by a shared secret.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct MacRule {
    pub(in crate::inbound) algorithm: MacAlgorithm,
    pub(in crate::inbound) encoding: Encoding,
    pub(in crate::inbound) signature: SignaturePlace,
    pub(in crate::inbound) over: Template,
}

/// A signature by a public key.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct KeyRule {
    pub(in crate::inbound) algorithms: Vec<KeyAlgorithm>,
    pub(in crate::inbound) encoding: Encoding,
    pub(in crate::inbound) signature: SignaturePlace,
    pub(in crate::inbound) over: Template,
    pub(in crate::inbound) from: KeySource,
}

/// A signed token.
#[derive(Clone, Debug)]
pub(in crate::inbound) struct JwtRule {
    pub(in crate::inbound) algorithm: JwtAlgorithm,
    /// `None`: the body is the token.
    pub(in crate::inbound) place: Option<SignaturePlace>,
    pub(in crate::inbound) from: KeySource,
    pub(in crate::inbound) issuers: Vec<String>,
    pub(in crate::inbound) checks_audience: bool,
    /// The claims `email` and `email_verified` must say what the source keeps as `app_id`.
    pub(in crate::inbound) checks_email: bool,
    pub(in crate::inbound) must_expire: bool,
    /// The claim with the SHA-256 of the body.
    pub(in crate::inbound) body_hash: Option<(String, Encoding)>,
}

/// Where a token stands.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum TokenPlace {
    Place {
        place: Place,
        prefix: String,
    },
    /// User and password of HTTP's basic authentication.
    Basic,
    /// Behind the source in the path.
    Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum MacAlgorithm {
    HmacSha1,
    HmacSha256,
    HmacSha512,
    PlainSha256,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum KeyAlgorithm {
    Ed25519,
    EcdsaP256,
    RsaSha256,
    RsaSha1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum JwtAlgorithm {
    Hs256,
    Rs256,
    Es256,
}

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::inbound) enum Encoding {
    Hex,
    Base64,
    Base64Url,
}

/// Where a public key comes from.
#[derive(Clone, Debug)]
pub(in crate::inbound) enum KeySource {
    /// The secrets of the source.
    Configured,
    /// A certificate whose URL is in the request, on one of these hosts.
    Certificate { place: Place, hosts: Vec<String> },
    /// A set of keys at this URL.
    Jwks { url: String },
}

impl Mechanism {
    /// Reads the mechanism of a recipe. Exactly one of the four fields may be there.
    pub(super) fn parse(fields: &RecipeFields<'_>, scope: &mut Scope<'_>, faults: &mut Vec<RecipeFault>) -> Self {
        let given = [("mac", fields.mac), ("key_sig", fields.key_sig), ("token", fields.token), ("jwt", fields.jwt)];
        let present: Vec<_> = given.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let parsed = match present[..] {
            [] => {
                unused(fields, &["sig", "ts", "over", "key_from", "key_format", "require", "url"], "no mechanism", faults);
                return Self::None;
            }
            [("mac", text)] => mac(text, fields, scope, faults).map(Self::Mac),
            [("key_sig", text)] => key(text, fields, scope, faults).map(Self::Key),
            [("token", text)] => {
                unused(fields, &["sig", "ts", "over", "key_from", "url"], "`token`", faults);
                keep(token(text, scope), faults).map(Self::Token)
            }
            [(_, text)] => jwt(text, fields, scope, faults).map(Self::Jwt),
            [(first, _), (second, _), ..] => {
                faults.push(RecipeFault::new(second, format!("cannot be combined with `{first}`; choose one of mac, key_sig, token, jwt")));
                None
            }
        };
        parsed.unwrap_or(Self::None)
    }
}

/// A value, or none and one fault more.
pub(super) fn keep<T>(result: Result<T, RecipeFault>, faults: &mut Vec<RecipeFault>) -> Option<T> {
    result.map_err(|fault| faults.push(fault)).ok()
}

fn unused(fields: &RecipeFields<'_>, names: &[&'static str], with: &str, faults: &mut Vec<RecipeFault>) {
    for (name, _) in fields.pairs().into_iter().filter(|(name, _)| names.contains(name)) {
        faults.push(RecipeFault::new(name, format!("means nothing with {with}; leave it out")));
    }
}

fn mac(text: &str, fields: &RecipeFields<'_>, scope: &mut Scope<'_>, faults: &mut Vec<RecipeFault>) -> Option<MacRule> {
    unused(fields, &["key_from"], "`mac`", faults);
    let fault = || {
        RecipeFault::new("mac", format!("is `{}`; write sha1, sha256, sha512 or plain-sha256, then hex, base64 or base64url", shown(text)))
    };
    let parsed = text.split_once(' ').and_then(|(algorithm, encoding)| {
        let algorithm = match algorithm {
            "sha1" => MacAlgorithm::HmacSha1,
            "sha256" => MacAlgorithm::HmacSha256,
            "sha512" => MacAlgorithm::HmacSha512,
            "plain-sha256" => MacAlgorithm::PlainSha256,
            _ => return None,
        };
        Some((algorithm, Encoding::parse(encoding)?))
    });
    let parsed = keep(parsed.ok_or_else(fault), faults);
    let signature = keep(SignaturePlace::parse(fields.sig, scope), faults);
    let over = keep(Template::parse(fields.over, scope), faults);
    let ((algorithm, encoding), signature, over) = (parsed?, signature?, over?);
    let secret_fault = match algorithm {
        MacAlgorithm::PlainSha256 if !over.always_has(|piece| *piece == super::template::Piece::Secret) => {
            Some("must hold {secret} in every alternative: a plain hash without it proves nothing")
        }
        MacAlgorithm::HmacSha1 | MacAlgorithm::HmacSha256 | MacAlgorithm::HmacSha512
            if over.has(|piece| *piece == super::template::Piece::Secret) =>
        {
            Some("must not hold {secret}: the secret is the key of the MAC")
        }
        _ => None,
    };
    faults.extend(secret_fault.map(|reason| RecipeFault::new("over", reason)));
    Some(MacRule { algorithm, encoding, signature, over })
}

fn key(text: &str, fields: &RecipeFields<'_>, scope: &mut Scope<'_>, faults: &mut Vec<RecipeFault>) -> Option<KeyRule> {
    let fault = || {
        RecipeFault::new(
            "key_sig",
            format!("is `{}`; write ed25519, ecdsa-p256, rsa-sha256 or rsa-sha1, then hex, base64 or base64url", shown(text)),
        )
    };
    let parsed = text.split_once(' ').and_then(|(algorithms, encoding)| {
        let algorithms: Option<Vec<KeyAlgorithm>> = algorithms.split('|').map(KeyAlgorithm::parse).collect();
        Some((algorithms.filter(|algorithms| algorithms.len() <= 2)?, Encoding::parse(encoding)?))
    });
    let parsed = keep(parsed.ok_or_else(fault), faults);
    let signature = keep(SignaturePlace::parse(fields.sig, scope), faults);
    let over = keep(Template::parse(fields.over, scope), faults);
    let from = keep(KeySource::parse(fields.key_from, scope), faults);
    let ((algorithms, encoding), signature, over, from) = (parsed?, signature?, over?, from?);
    if over.has(|piece| *piece == super::template::Piece::Secret) {
        faults.push(RecipeFault::new("over", "must not hold {secret}: a public key is no secret"));
    }
    if matches!(from, KeySource::Jwks { .. }) {
        faults.push(RecipeFault::new("key_from", "cannot be jwks with `key_sig`; use `jwt`"));
    }
    Some(KeyRule { algorithms, encoding, signature, over, from })
}

impl KeyAlgorithm {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ed25519" => Self::Ed25519,
            "ecdsa-p256" => Self::EcdsaP256,
            "rsa-sha256" => Self::RsaSha256,
            "rsa-sha1" => Self::RsaSha1,
            _ => return None,
        })
    }
}

impl Encoding {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "hex" | "HEX" => Self::Hex,
            "base64" => Self::Base64,
            "base64url" => Self::Base64Url,
            _ => return None,
        })
    }
}

fn token(text: &str, scope: &mut Scope<'_>) -> Result<TokenPlace, RecipeFault> {
    const FIELD: &str = "token";
    let fault =
        || RecipeFault::new(FIELD, format!("is `{}`; write a place, basic or path, and prefix='Bearer ' behind a header", shown(text)));
    let words = words(text).ok_or_else(fault)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["basic"] => TokenPlace::Basic,
        ["path"] => TokenPlace::Path,
        [place] => TokenPlace::Place { place: Place::parse(FIELD, place, scope)?, prefix: String::new() },
        [place, prefix] => {
            let prefix = prefix.strip_prefix("prefix=").ok_or_else(fault)?.to_owned();
            TokenPlace::Place { place: Place::parse(FIELD, place, scope)?, prefix }
        }
        _ => return Err(fault()),
    })
}

fn jwt(text: &str, fields: &RecipeFields<'_>, scope: &mut Scope<'_>, faults: &mut Vec<RecipeFault>) -> Option<JwtRule> {
    unused(fields, &["ts", "over", "url"], "`jwt`", faults);
    let from = keep(KeySource::parse(fields.key_from, scope), faults);
    let place = match (fields.body, fields.sig) {
        ("jwt", "") => Some(None),
        ("jwt", _) => keep(Err(RecipeFault::new("sig", "means nothing where the body is the token; leave it out")), faults),
        (_, sig) if sig.starts_with("body:") || sig.starts_with("form:") => {
            keep(Err(RecipeFault::new("sig", "must be a header with `jwt`, or leave it out and write `body: jwt`")), faults)
        }
        _ => keep(SignaturePlace::parse(fields.sig, scope), faults).map(Some),
    };
    let rule = keep(claims(text), faults);
    let (from, place, rule) = (from?, place?, rule?);
    match (rule.algorithm, &from) {
        (_, KeySource::Certificate { .. }) => faults.push(RecipeFault::new("key_from", "cannot be cert with `jwt`; write jwks https://…")),
        (JwtAlgorithm::Hs256, KeySource::Jwks { .. }) => {
            faults.push(RecipeFault::new("key_from", "means nothing with HS256, whose key is the secret; leave it out"));
        }
        _ => {}
    }
    Some(JwtRule { place, from, ..rule })
}

/// The algorithm and what the claims must say.
fn claims(text: &str) -> Result<JwtRule, RecipeFault> {
    const RIGHT: &str = "write HS256, RS256 or ES256, then any of iss=a,b aud=audience email=app_id exp body_hex=claim body_base64=claim";
    let fault = |word: &str| RecipeFault::new("jwt", format!("holds `{}`; {RIGHT}", shown(word)));
    let mut words = text.split_ascii_whitespace();
    let algorithm = match words.next().unwrap_or("") {
        "HS256" => JwtAlgorithm::Hs256,
        "RS256" => JwtAlgorithm::Rs256,
        "ES256" => JwtAlgorithm::Es256,
        other => return Err(fault(other)),
    };
    let mut rule = JwtRule {
        algorithm,
        place: None,
        from: KeySource::Configured,
        issuers: Vec::new(),
        checks_audience: false,
        checks_email: false,
        must_expire: false,
        body_hash: None,
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("iss", issuers) if !issuers.is_empty() => rule.issuers = issuers.split(',').map(str::to_owned).collect(),
            ("aud", "audience") => rule.checks_audience = true,
            ("email", "app_id") => rule.checks_email = true,
            ("exp", "") => rule.must_expire = true,
            ("body_hex", claim) if parameter_name(claim).is_some() => rule.body_hash = Some((claim.to_owned(), Encoding::Hex)),
            ("body_base64", claim) if parameter_name(claim).is_some() => rule.body_hash = Some((claim.to_owned(), Encoding::Base64)),
            _ => return Err(fault(word)),
        }
    }
    Ok(rule)
}

impl KeySource {
    fn parse(text: &str, scope: &mut Scope<'_>) -> Result<Self, RecipeFault> {
        /// Each host is a place that may say what a right signature is.
        const HOSTS_MAX: usize = 8;
        const FIELD: &str = "key_from";
        let fault = || {
            RecipeFault::new(
                FIELD,
                format!("is `{}`; write cert <place> hosts=a.example.com,b.example.com, or jwks https://…", shown(text)),
            )
        };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match words[..] {
            [] => Ok(Self::Configured),
            ["jwks", url] => match url::Url::parse(url) {
                Ok(parsed) if parsed.scheme() == "https" && parsed.host_str().is_some() => Ok(Self::Jwks { url: url.to_owned() }),
                _ => Err(fault()),
            },
            ["cert", place, hosts] => {
                let hosts: Vec<String> = hosts.strip_prefix("hosts=").ok_or_else(fault)?.split(',').map(str::to_ascii_lowercase).collect();
                let is_host = |host: &String| host.contains('.') && !host.contains(['/', ':', '@', ' ']);
                if hosts.len() > HOSTS_MAX || !hosts.iter().all(is_host) {
                    return Err(fault());
                }
                Ok(Self::Certificate { place: Place::parse(FIELD, place, scope)?, hosts })
            }
            _ => Err(fault()),
        }
    }
}

/// How the signed URL is written.
#[derive(Clone, Debug, Default)]
pub(in crate::inbound) struct UrlRule {
    /// With and without the port.
    pub(in crate::inbound) either_port: bool,
    /// With some percent-codes decoded.
    pub(in crate::inbound) decodes: bool,
    /// The parameter with the hash of a body that is no form.
    pub(in crate::inbound) body_hash: Option<String>,
}

impl UrlRule {
    /// Reads `url`.
    pub(super) fn parse(text: &str) -> Result<Self, RecipeFault> {
        let mut rule = Self::default();
        for word in text.split_ascii_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("port", "") => rule.either_port = true,
                ("hubspot", "") => rule.decodes = true,
                ("body_hash", name) if parameter_name(name).is_some() => rule.body_hash = Some(name.to_owned()),
                _ => return Err(RecipeFault::new("url", format!("holds `{}`; there are port, hubspot and body_hash=name", shown(word)))),
            }
        }
        Ok(rule)
    }
}
