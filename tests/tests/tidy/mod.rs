//! Repository checks beyond linters. Every finding names a file, a line and what to do.

mod arrows;
mod blocks;
mod code;
mod commands;
mod links;
mod methods;
mod names;
mod promises;
mod sources;
mod strata;
mod text;
mod tree;
mod words;

use tree::{File, Finding};

/// Fails with all findings at once, so that one run shows the whole of the work.
#[track_caller]
fn expect_none(findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}\n", findings.len(), lines.join("\n"));
}

fn findings(rule: impl Fn(&File) -> Vec<Finding>) -> Vec<Finding> {
    tree::files().iter().flat_map(rule).collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    expect_none(&findings(arrows::crate_arrows));
    expect_none(&arrows::members_without_arrows(&tree::files()));
}

#[test]
fn root_dependencies_give_their_reason() {
    expect_none(&findings(arrows::dependency_reasons));
}

#[test]
fn protocol_crates_are_imported_in_few_files() {
    expect_none(&findings(arrows::foreign_imports));
}

#[test]
fn source_files_open_with_module_docs() {
    expect_none(&findings(sources::module_docs));
}

#[test]
fn source_files_stay_short() {
    expect_none(&findings(sources::length));
}

#[test]
fn exceptions_from_lints_are_expectations() {
    expect_none(&findings(sources::allowed_lints));
}

#[test]
fn only_disk_syncs_and_renames() {
    expect_none(&findings(sources::syncs_and_renames));
}

#[test]
fn no_leftover_markers_remain() {
    expect_none(&findings(text::leftovers));
}

#[test]
fn no_paths_of_one_machine() {
    expect_none(&findings(text::machine_paths));
}

#[test]
fn private_words_become_fewer() {
    expect_none(&words::beyond_ceilings(&tree::files()));
}

#[test]
fn modules_lie_in_strata() {
    expect_none(&strata::beyond_ceilings(&tree::files()));
    expect_none(&strata::against_named_order(&tree::files()));
}

#[test]
fn methods_of_a_type_stand_in_two_folders() {
    expect_none(&methods::beyond_ceiling(&tree::files()));
}

#[test]
fn pages_name_what_the_code_has() {
    expect_none(&names::missing(&tree::files()));
}

#[test]
fn promises_name_their_tests() {
    expect_none(&promises::missing_tests(&tree::files()));
}

#[test]
fn every_page_of_the_documents_is_listed() {
    expect_none(&links::unlisted_pages(&tree::files()));
}

#[test]
fn links_lead_somewhere() {
    expect_none(&links::broken(&tree::files()));
}

#[test]
fn commands_in_documents_exist() {
    let program = tests::tools::amphora().expect("the server is built");
    expect_none(&commands::unknown(&tree::files(), &program));
}
