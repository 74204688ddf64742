//! What shapes the requests to endpoints that were sent to lately, opened, within a bound in bytes.
//!
//! Apart from the endpoints, because an opened key takes more memory than all else of an endpoint, and most endpoints of a large application get
//! nothing for a long time.

use std::{
    mem::size_of,
    sync::{Arc, PoisonError, RwLock},
};

use rustc_hash::FxHashMap;

use crate::{
    ids::{EndpointId, RevisionNumber},
    model::{Endpoint, Revision},
    ports::{StoreError, Vault},
    shape::Shape,
};

/// What all opened shapes may take in memory, in bytes: those of some ten thousand endpoints. Past it all are dropped, and opened again as they are
/// needed, which takes some microseconds each.
const SHAPES_BYTES_MAX: usize = 32 << 20;

/// What a text takes beside its bytes.
const ALLOCATED_BYTES: usize = 32;

/// Opened shapes by endpoint.
#[derive(Default)]
pub struct Shapes(RwLock<Opened>);

#[derive(Default)]
struct Opened {
    of: FxHashMap<EndpointId, (RevisionNumber, Arc<Shape>)>,
    bytes: usize,
}

impl Shapes {
    /// What shapes the requests to an endpoint as it stands.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if its secret does not open.
    pub fn open(&self, endpoint: &Endpoint, vault: &dyn Vault) -> Result<Arc<Shape>, StoreError> {
        if let Some((_, shape)) =
            self.0.read().unwrap_or_else(PoisonError::into_inner).of.get(&endpoint.id).filter(|(number, _)| *number == endpoint.revision)
        {
            return Ok(Arc::clone(shape));
        }
        let shape = Arc::new(Shape::open(endpoint.id, Revision::of(endpoint), vault)?);
        self.keep(endpoint, &shape);
        Ok(shape)
    }

    fn keep(&self, endpoint: &Endpoint, shape: &Arc<Shape>) {
        let bytes = bytes(shape);
        let mut opened = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if opened.bytes + bytes > SHAPES_BYTES_MAX {
            *opened = Opened::default();
        }
        opened.bytes += bytes;
        if let Some((_, before)) = opened.of.insert(endpoint.id, (endpoint.revision, Arc::clone(shape))) {
            opened.bytes = opened.bytes.saturating_sub(self::bytes(&before));
        }
    }

    /// Drops all of them: the store may be another one, in which revisions have other numbers.
    pub(super) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Opened::default();
    }
}

fn bytes(shape: &Shape) -> usize {
    let headers: usize = shape.headers.iter().map(|(_, value)| 2 * ALLOCATED_BYTES + value.len()).sum();
    let target = shape.target.written.len() + shape.target.url.as_str().len();
    size_of::<Shape>() + 8 * ALLOCATED_BYTES + headers + target
}
