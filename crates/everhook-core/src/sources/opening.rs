//! From a source as it is kept to what reads its requests: its recipe compiled, its secrets opened. Used by the cache, and by whoever checks a source
//! before it is kept.

use std::{sync::Arc, time::Duration};

use crate::{
    inbound::{self, Credentials, HmacFields, Kind, Recipe, RecipeFault, RecipeFields, Verifier},
    model::{EventType, KIND_CUSTOM, KIND_HMAC, RecipeTexts, SealedSecret, Source},
    ports::{StoreError, Vault},
};

/// What an opened source takes in memory beside its texts: the recipe's pieces, prepared keys, entries in maps.
const BASE_BYTES: usize = 2 << 10;

/// A source that is ready to read requests.
#[derive(Debug)]
pub struct OpenSource {
    /// The source. Its secrets are sealed here.
    pub source: Source,
    /// Reads its requests.
    pub verifier: Verifier,
}

impl OpenSource {
    /// Opens a source that was checked when it was made.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it is not what this version wrote, or was sealed with another key.
    pub(super) fn open(source: Source, vault: &dyn Vault) -> Result<Self, StoreError> {
        let unfit = |faults: Vec<RecipeFault>| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            StoreError::corrupt(format!("the source {} cannot be opened: {}", source.id, faults.join("; ")))
        };
        let recipe = compile(&source.kind, &source.recipe).map_err(|error| match error {
            RecipeError::UnknownKind => StoreError::corrupt(format!("the source {} is of an unknown kind, `{}`", source.id, source.kind)),
            RecipeError::Faults(faults) => unfit(faults),
        })?;
        let verifier = Verifier::new(Arc::new(recipe), &credentials(&source, vault)?, source.tolerance).map_err(unfit)?;
        Ok(Self { source, verifier })
    }

    /// About what it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let Source { recipe, secrets, ip_allowlist, response, forward_headers, keep_headers, .. } = &self.source;
        let names = forward_headers.iter().chain(keep_headers);
        // Texts are there as they are kept, and once more as they are used.
        let texts =
            recipe.values().map(String::len).sum::<usize>() + secrets.iter().map(|SealedSecret(sealed)| sealed.len()).sum::<usize>();
        BASE_BYTES
            + 2 * texts
            + ip_allowlist.len() * 32
            + names.map(|name| 32 + name.len()).sum::<usize>()
            + response.as_ref().map_or(0, |response| response.body.len())
    }
}

/// Why there is no recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipeError {
    /// There is no such kind.
    UnknownKind,
    /// The fields that were written are not acceptable.
    Faults(Vec<RecipeFault>),
}

/// Compiles the recipe of a kind; `texts` are the fields that the kinds `custom` and `hmac` take.
///
/// # Errors
/// [`RecipeError`] names every fault at once.
pub fn compile(kind: &str, texts: &RecipeTexts) -> Result<Recipe, RecipeError> {
    let field = |name: &str| texts.get(name).map_or("", String::as_str);
    let (mac, sig);
    let fields = match kind {
        KIND_CUSTOM => {
            RecipeFields::from_pairs(texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(RecipeError::Faults)?
        }
        KIND_HMAC => {
            let short =
                HmacFields { header: field("header"), algorithm: field("algorithm"), encoding: field("encoding"), prefix: field("prefix") };
            (mac, sig) = short.mac_and_sig();
            RecipeFields { mac: &mac, sig: &sig, over: "{body}", body: "any", ..RecipeFields::default() }
        }
        name => return inbound::kind(name).map(Kind::compile).ok_or(RecipeError::UnknownKind),
    };
    let recipe = Recipe::compile(&fields).map_err(RecipeError::Faults)?;
    // As built-in kinds do: items of which nothing says the type have the name of the kind.
    Ok(recipe.with_default_type(EventType::parse(kind).expect("both names are spelled as types")))
}

/// How far the time in a request of a source may be off: as its owner set it, or as its kind or recipe says; `None` where nothing is judged.
pub fn tolerance(source: &Source) -> Option<Duration> {
    source.tolerance.or_else(|| compile(&source.kind, &source.recipe).ok()?.tolerance())
}

/// Whether a provider of this kind sends the key in its handshake.
pub fn takes_key(kind: &str, texts: &RecipeTexts) -> bool {
    compile(kind, texts).is_ok_and(|recipe| recipe.captures_secret())
}

/// What a source keeps for its recipe, opened.
///
/// # Errors
/// [`StoreError::Corrupt`] if something was sealed with another key.
pub fn credentials(source: &Source, vault: &dyn Vault) -> Result<Credentials, StoreError> {
    let open = |sealed: &SealedSecret| {
        let plain = vault.open(source.id.as_uuid(), sealed).map_err(StoreError::corrupt)?;
        String::from_utf8(plain).map_err(StoreError::corrupt)
    };
    Ok(Credentials {
        secrets: source.secrets.iter().map(open).collect::<Result<_, _>>()?,
        verify_token: source.verify_token.as_ref().map(open).transpose()?,
        subscription_id: source.subscription_id.clone(),
        app_id: source.app_id.clone(),
        audience: source.audience.clone(),
        public_url: source.public_url.clone(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        ids::{ApplicationId, OrganizationId, SourceId},
        model::{SourceName, SourceRateLimit, SourceResponse},
        time::Timestamp,
    };

    /// An opened source that takes so many bytes.
    pub(in super::super) fn opened(id: u128, name: &str, bytes: usize) -> OpenSource {
        let uuid = Uuid::from_u128(id);
        let source = Source {
            id: SourceId::from_uuid(uuid),
            organization: OrganizationId::from_uuid(uuid),
            application: ApplicationId::from_uuid(uuid),
            name: SourceName::parse(name).unwrap(),
            kind: "none".to_owned(),
            recipe: RecipeTexts::new(),
            secrets: Vec::new(),
            verify_token: None,
            subscription_id: None,
            app_id: None,
            audience: None,
            public_url: None,
            tolerance: None,
            ip_allowlist: Vec::new(),
            rate_limit: SourceRateLimit::default(),
            dedupe: None,
            forward: true,
            processor: None,
            forward_headers: Vec::new(),
            keep_headers: Vec::new(),
            response: Some(SourceResponse { status: 200, content_type: None, body: "x".repeat(bytes) }),
            paused: None,
            awaiting_handshake_until: None,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        };
        let recipe = compile(&source.kind, &source.recipe).unwrap();
        let verifier = Verifier::new(Arc::new(recipe), &Credentials::default(), None).unwrap();
        OpenSource { source, verifier }
    }

    #[test]
    fn a_kind_that_is_not_there_has_no_recipe() {
        assert!(matches!(compile("no-such-kind", &RecipeTexts::new()), Err(RecipeError::UnknownKind)));
    }

    #[test]
    fn a_field_that_no_recipe_has_is_a_fault() {
        let texts = RecipeTexts::from([("macs".to_owned(), "sha256 hex".to_owned())]);
        assert!(matches!(compile(KIND_CUSTOM, &texts), Err(RecipeError::Faults(_))));
    }
}
