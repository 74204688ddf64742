//! Values of a JSON text by pointers, in one pass, without building the document.
//!
//! A recipe's pointers are put into one [`Plan`]. Reading walks the text once, validates all of it and keeps the bytes at each pointer as they were sent.
//! A pointer that leads to two values (a member that is there twice) makes the text unreadable: readers differ in which of the two they take.

use std::{borrow::Cow, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// How many pointers a recipe may have: the longest row of the table has a dozen.
pub(super) const POINTERS_MAX: usize = 64;
/// How deep a pointer may lead.
const DEPTH_MAX: usize = 16;
/// How long a pointer may be.
const POINTER_BYTES_MAX: usize = 256;

/// A JSON pointer (RFC 6901), as its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(pub(super) Vec<String>);

impl Pointer {
    /// Reads `/a/0/b`. The empty text is the whole.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let rest = text.strip_prefix('/').filter(|_| text.len() <= POINTER_BYTES_MAX)?;
        let parts: Vec<String> = rest.split('/').map(unescaped).collect::<Option<_>>()?;
        (parts.len() <= DEPTH_MAX).then_some(Self(parts))
    }

    /// Its last part.
    pub(super) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, "/{}", part.replace('~', "~0").replace('/', "~1")))
    }
}

/// `~1` is a slash and `~0` a tilde; a tilde before anything else is wrong.
fn unescaped(part: &str) -> Option<String> {
    let mut out = String::with_capacity(part.len());
    let mut rest = part.chars();
    while let Some(c) = rest.next() {
        match c {
            '~' => match rest.next()? {
                '0' => out.push('~'),
                '1' => out.push('/'),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    Some(out)
}

/// Which values to keep: pointers as a tree, each with its slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    root: Node,
    slots: usize,
}

#[derive(Clone, Debug, Default)]
struct Node {
    slot: Option<usize>,
    children: Vec<(String, Node)>,
}

impl Plan {
    /// Adds a pointer, and says where its value will be. The same pointer has one slot.
    pub(super) fn add(&mut self, pointer: &Pointer) -> usize {
        let mut node = &mut self.root;
        for part in &pointer.0 {
            let at = match node.children.iter().position(|(name, _)| name == part) {
                Some(at) => at,
                None => {
                    node.children.push((part.clone(), Node::default()));
                    node.children.len() - 1
                }
            };
            node = &mut node.children[at].1;
        }
        *node.slot.get_or_insert_with(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// How many pointers it has.
    pub(super) fn len(&self) -> usize {
        self.slots
    }
}

/// What was found: the bytes of each value, in the order of the plan's slots.
#[derive(Debug, Default)]
pub(super) struct Values<'t>(Vec<Option<&'t str>>);

impl<'t> Values<'t> {
    /// Walks a text.
    ///
    /// # Errors
    /// What is wrong with it: it is no JSON, it is neither an object nor an array, or a pointer leads to two values.
    pub(super) fn read(text: &'t str, plan: &Plan) -> Result<Self, String> {
        if !text.trim_start_matches([' ', '\n', '\r', '\t']).starts_with(['{', '[']) {
            return Err("it is neither a JSON object nor an array".to_owned());
        }
        let mut slots = vec![None; plan.slots];
        keep(text, Walk::to(&plan.root, &mut slots)).map_err(|error| format!("it cannot be read as JSON: {error}"))?;
        Ok(Self(slots))
    }

    /// The JSON text of a value; `None` where it is absent.
    pub(super) fn raw(&self, slot: usize) -> Option<&'t str> {
        self.0.get(slot).copied().flatten()
    }

    /// A value as text: a string's characters, a number or a truth value as it was written. `None` where it is absent, `null`, an object or an array.
    pub(super) fn text(&self, slot: usize) -> Option<Cow<'t, str>> {
        text_of(self.raw(slot)?)
    }
}

/// A scalar as text.
pub(super) fn text_of(raw: &str) -> Option<Cow<'_, str>> {
    match raw.as_bytes().first()? {
        b'{' | b'[' | b'n' => None,
        b'"' => match serde_json::from_str::<&str>(raw) {
            Ok(text) => Some(Cow::Borrowed(text)),
            Err(_) => serde_json::from_str::<String>(raw).ok().map(Cow::Owned),
        },
        _ => Some(Cow::Borrowed(raw)),
    }
}

/// Splits an array into the texts of its elements.
///
/// # Errors
/// `None` where there are more than `max`; the text was validated before, so that nothing else can be wrong.
pub(super) fn elements(raw: &str, max: usize) -> Option<Vec<&str>> {
    struct Elements(usize);
    impl<'de> Visitor<'de> for Elements {
        type Value = Vec<&'de str>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some(value) = seq.next_element::<&'de RawValue>()? {
                if found.len() == self.0 {
                    return Err(A::Error::custom("too many"));
                }
                found.push(value.get());
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(raw).deserialize_seq(Elements(max)).ok()
}

/// Splits an object into its members.
///
/// # Errors
/// `None` where there are more than `max`.
pub(super) fn members(raw: &str, max: usize) -> Option<Vec<(String, &str)>> {
    struct Members(usize);
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de str)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                if found.len() == self.0 {
                    return Err(A::Error::custom("too many"));
                }
                found.push((name, value.get()));
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(raw).deserialize_map(Members(max)).ok()
}

fn keep<'t>(text: &'t str, walk: Walk<'_, '_, 't>) -> Result<(), serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    walk.deserialize(&mut reader)?;
    reader.end()
}

/// Reads one value by its node of the plan.
struct Walk<'p, 's, 't> {
    node: &'p Node,
    slots: &'s mut [Option<&'t str>],
    /// Where this value itself belongs; `None` also while its parts are read again.
    slot: Option<usize>,
}

impl<'p, 's, 't> Walk<'p, 's, 't> {
    fn to(node: &'p Node, slots: &'s mut [Option<&'t str>]) -> Self {
        Self { node, slots, slot: node.slot }
    }
}

impl<'t> DeserializeSeed<'t> for Walk<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<(), D::Error> {
        let Some(slot) = self.slot else {
            return if self.node.children.is_empty() {
                reader.deserialize_ignored_any(IgnoredAny).map(drop)
            } else {
                reader.deserialize_any(self)
            };
        };
        let raw = <&'t RawValue as serde::Deserialize>::deserialize(reader)?.get();
        self.slots[slot] = Some(raw);
        if self.node.children.is_empty() {
            return Ok(());
        }
        keep(raw, Walk { node: self.node, slots: self.slots, slot: None }).map_err(D::Error::custom)
    }
}

impl<'t> Visitor<'t> for Walk<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = 0_u64;
        while let Some(child) = map.next_key_seed(Child(self.node))? {
            let Some(at) = child else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            // A node has at most as many children as a recipe has pointers.
            let bit = 1_u64 << (at % POINTERS_MAX);
            if seen & bit != 0 {
                return Err(A::Error::custom("a member is there twice"));
            }
            seen |= bit;
            map.next_value_seed(Walk::to(&self.node.children[at].1, &mut *self.slots))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let child = self.node.children.iter().find(|(name, _)| is_index(name, index));
            let more = match child {
                Some((_, node)) => seq.next_element_seed(Walk::to(node, &mut *self.slots))?.is_some(),
                None => seq.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a part of a pointer means this place of an array. A number has no needless zeros.
fn is_index(name: &str, index: usize) -> bool {
    (name == "0" || !name.starts_with('0')) && super::text::number(name) == u64::try_from(index).ok()
}

/// Finds the child of a node by a member's name, without keeping the name.
struct Child<'p>(&'p Node);

impl<'t> DeserializeSeed<'t> for Child<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Child<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.children.iter().position(|(child, _)| child == name))
    }
}
