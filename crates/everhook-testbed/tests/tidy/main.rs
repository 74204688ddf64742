//! The rules of this repository that a program can check: facts, not taste. Each rule reads the tree as text and says, for every violation, what to do.
//!
//! A rule is a function from the [`Tree`] to sentences. It is tested twice: on the real tree, where it must find nothing, and on a tree of one or two
//! files with a planted violation, which it must find. What a rule tolerates is listed beside it, file by file; an entry that is not needed any more is a
//! violation as well, so that the lists can only shrink.

mod bounds;
mod citations;
mod conformance;
mod edges;
mod lane_kinds;
mod port_sizes;
mod prose;
mod sealed_columns;
mod statements;
mod tree;
mod words;

use tree::Tree;

/// Fails with every sentence at once.
#[track_caller]
fn assert_nothing(violations: Vec<String>) {
    assert!(violations.is_empty(), "{} violation(s):\n- {}\n", violations.len(), violations.join("\n- "));
}

#[test]
fn modules_use_only_what_is_below_them() {
    assert_nothing(edges::violations(&Tree::read()));
}

#[test]
fn every_statement_says_its_index_and_lock_and_exists_for_both_stores() {
    assert_nothing(statements::violations(&Tree::read()));
}

#[test]
fn the_page_of_limits_says_what_the_code_does() {
    assert_nothing(bounds::violations(&Tree::read()));
}

#[test]
fn cited_decisions_files_and_headings_exist() {
    assert_nothing(citations::violations(&Tree::read()));
}

#[test]
fn replaced_words_are_gone() {
    assert_nothing(words::violations(&Tree::read()));
}

#[test]
fn every_port_method_is_called_by_the_tests_of_the_adapters() {
    assert_nothing(conformance::violations(&Tree::read()));
}

#[test]
fn every_method_of_the_delivery_side_is_called_for_every_kind_of_lane() {
    assert_nothing(lane_kinds::violations(&Tree::read()));
}

#[test]
fn no_port_has_more_methods_than_a_reader_can_keep_in_mind() {
    assert_nothing(port_sizes::violations(&Tree::read()));
}

#[test]
fn lines_of_markdown_are_short_or_one_sentence_and_no_path_is_a_machines_own() {
    assert_nothing(prose::violations(&Tree::read()));
}

#[test]
fn every_sealed_column_is_known_to_the_rotation_of_the_sealing_key() {
    assert_nothing(sealed_columns::violations(&Tree::read()));
}
