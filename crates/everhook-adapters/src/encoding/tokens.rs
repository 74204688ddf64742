//! Hashes of tokens in one column: 32 bytes each, one after the other.

use everhook_core::model::TokenHash;

pub(crate) fn write(tokens: &[TokenHash]) -> Vec<u8> {
    tokens.concat()
}

pub(crate) fn read(bytes: &[u8]) -> Option<Vec<TokenHash>> {
    let (tokens, rest) = bytes.as_chunks();
    rest.is_empty().then(|| tokens.to_vec())
}
