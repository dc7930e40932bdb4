//! Choosing a driver.

use super::*;
use std::thread;

/// Returns the driver that runs, after a test that it works.
struct Report;

impl WithDriver<Bytes> for Report {
    type Output = Chosen;

    fn run<D: Driver<Bytes>>(self, mut driver: D, chosen: Chosen) -> Chosen {
        driver.waker().wake();
        let mut done = Vec::new();
        driver.wait(Some(PATIENCE), &mut done).unwrap();
        assert!(matches!(done[..], [Done::Woken]));
        chosen
    }
}

#[test]
fn each_word_names_its_driver() {
    for kind in LoopKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        let chosen = choose(kind, &Options::default(), Report).unwrap();
        assert_eq!(chosen, Chosen { kind, instead: None });
        assert_eq!(chosen.to_string(), kind.to_string());
    }
}

#[test]
fn an_unknown_word_gets_the_list_of_known_ones() {
    let error = "x".parse::<LoopKind>().unwrap_err();
    assert_eq!(error.to_string(), "'x': expected one of epoll, pool, uring");
}

#[test]
fn falls_back_to_epoll_and_reports_why() {
    // A thread of its own: the filter stays in force for its thread.
    let chosen = thread::spawn(|| {
        forbid_io_uring();
        choose(LoopKind::Uring, &Options::default(), Report).unwrap()
    });
    let chosen = chosen.join().unwrap();
    assert_eq!(chosen.kind, LoopKind::Epoll);
    let message = chosen.to_string();
    assert!(message.starts_with("epoll: io_uring is not available: "), "{message}");
    assert!(message.contains("seccomp"), "{message}");
}

/// Makes `io_uring_setup` fail with EPERM in this thread, as a container would.
fn forbid_io_uring() {
    let statement =
        |code: u32, jump: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: jump, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_io_uring_setup as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the program lives during the calls; the filter is this thread's.
    let set = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
        ]
    };
    assert_eq!(set, [0, 0], "{}", io::Error::last_os_error());
}
