//! One suite for all combinations of choices.

use super::site::Site;
use super::{Choices, Naming, Served, conditions, connections, contents, people};
use commonhold_files::LayoutKind;
use commonhold_io::sockets::LoopKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Two servers of the same choices: of paths, and of Zotero's storage.
pub struct Stage {
    pub address: SocketAddr,
    pub storage: SocketAddr,
}

/// The parts.
const SUITE: [fn(&Stage); 13] = [
    contents::files_are_what_they_are,
    contents::absent_files_are_not_found,
    contents::methods_are_get_head_and_options,
    contents::codings_are_sent_to_clients_that_accept_them,
    contents::directories_have_an_index,
    conditions::ranges,
    conditions::several_ranges,
    conditions::unchanged_files_are_not_sent,
    connections::connections_are_kept_as_was_agreed,
    connections::requests_in_one_go_are_answered_in_order,
    connections::a_client_that_has_ended_its_requests_gets_its_answers,
    connections::the_simple_protocol,
    people::the_rude_the_slow_and_the_others,
];

/// A combination that takes longer hangs; on a quiet machine it takes a fraction of a second.
const HANGS: Duration = Duration::from_secs(180);

fn every(kind: LoopKind) {
    let (site, begun) = (Site::new(), Instant::now());
    let all = Choices::of(kind);
    assert_eq!(all.len(), 72);
    for choices in all {
        let (_naming, begun) = (Naming::new(choices), Instant::now());
        let is_database = choices.is_database();
        let files = Served::new(choices, &site.place(is_database), |_| ());
        let storage = Served::new(choices, &site.storage(is_database), |options| {
            (options.layout, options.threads) = (LayoutKind::Zotero, 1);
        });
        let stage = Stage { address: files.address, storage: storage.address };
        SUITE.iter().for_each(|part| part(&stage));
        files.finish();
        storage.finish();
        assert!(begun.elapsed() < HANGS, "{:?}", begun.elapsed());
    }
    println!("loop {kind}: {:?}", begun.elapsed());
}

#[test]
fn every_choice_with_epoll() {
    every(LoopKind::Epoll);
}

#[test]
fn every_choice_with_a_pool() {
    every(LoopKind::Pool);
}

#[test]
fn every_choice_with_io_uring() {
    every(LoopKind::Uring);
}
