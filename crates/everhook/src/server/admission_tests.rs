use super::*;

fn limits(connections: usize, reserve: usize) -> ConnectionLimits {
    ConnectionLimits { connections, reserve, trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()] }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Connects so many from an address, and says how many seats of each kind they got.
fn connect(admission: &Arc<Admission>, from: &str, count: usize, held: &mut Vec<Admitted>) -> (usize, usize) {
    let now = Instant::now();
    let admitted: Vec<_> = (0..count).filter_map(|_| admission.admit(ip(from), now)).collect();
    let of = |seat| admitted.iter().filter(|one| one.seat == seat).count();
    let counts = (of(ConnectionPurpose::Ordinary), of(ConnectionPurpose::Reserve));
    held.extend(admitted);
    counts
}

#[test]
fn a_peer_has_a_quarter_and_leaves_the_rest_to_others() {
    let (admission, mut held) = (Admission::new(limits(40, 16)), Vec::new());
    assert_eq!(connect(&admission, "192.0.2.1", 20, &mut held).0, 10);
    assert_eq!(connect(&admission, "192.0.2.2", 10, &mut held), (10, 0));
    held.clear();
    assert_eq!(connect(&admission, "192.0.2.1", 10, &mut held), (10, 0), "what was closed is free again");
}

#[test]
fn a_peer_is_an_ipv4_address_or_a_64_bit_network() {
    let table = [
        ("2001:db8::1", "2001:db8::2", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
    ];
    for (one, other, is_same) in table {
        assert_eq!(Peer::of(ip(one)) == Peer::of(ip(other)), is_same, "{one} {other}");
    }
}

#[test]
fn a_trusted_proxy_may_take_all_and_loopback_may_not() {
    let mut held = Vec::new();
    assert_eq!(connect(&Admission::new(limits(40, 16)), "10.1.2.3", 40, &mut held), (40, 0));
    assert_eq!(connect(&Admission::new(limits(40, 16)), "127.0.0.1", 40, &mut held).0, 10);
}

#[test]
fn a_full_server_keeps_seats_for_health_checks() {
    let (admission, mut held) = (Admission::new(limits(8, 16)), Vec::new());
    assert_eq!(connect(&admission, "10.0.0.1", 8, &mut held), (8, 0));
    let _answering: Vec<_> = held.iter().map(|seat| seat.activity().begin()).collect();
    assert_eq!(connect(&admission, "192.0.2.9", 1, &mut held), (0, 1));
}

#[test]
fn in_the_reserve_the_longest_silent_gives_way_and_a_peer_to_itself_first() {
    let (admission, now) = (Admission::new(limits(8, 16)), Instant::now());
    let later = |millis| now + Duration::from_millis(millis);
    let silent: Vec<_> = (0..50).filter_map(|n| admission.admit(ip("192.0.2.1"), later(n))).collect();
    let reserve: Vec<_> = silent.iter().filter(|one| one.seat == ConnectionPurpose::Reserve).collect();
    let evicted = |one: &Admitted| one.state.is_evicted.load(Ordering::Relaxed);
    assert!(evicted(reserve[0]), "the first of its own gave way");
    assert!(!evicted(reserve.last().unwrap()) && !evicted(reserve[reserve.len() - 2]));
    let probe = admission.admit(ip("192.0.2.1"), later(60)).expect("a seat for a health check");
    let answering = probe.activity().begin();
    let flood: Vec<_> = (0..50).filter_map(|n| admission.admit(ip("192.0.2.1"), later(70 + n))).collect();
    assert!(!evicted(&probe), "one that has asked stays");
    assert!(!flood.is_empty());
    // Once it has its answer, whether it reads that or not, it gives way as well.
    drop(answering);
    let _flood: Vec<_> = (0..50).filter_map(|n| admission.admit(ip("192.0.2.1"), later(60_000 + n))).collect();
    assert!(evicted(&probe));
}

#[test]
fn a_full_server_closes_the_longest_idle_but_none_that_is_at_work() {
    let (admission, now) = (Admission::new(limits(8, 16)), Instant::now());
    let seats: Vec<_> = (0..8).filter_map(|_| admission.admit(ip("10.0.0.1"), now)).collect();
    let work: Vec<_> = seats.iter().skip(1).map(Admitted::activity).collect();
    let _answering: Vec<_> = work.iter().map(Activity::begin).collect();
    let soon = now + IDLE_EVICTED_AFTER / 2;
    assert_eq!(admission.admit(ip("192.0.2.1"), soon).unwrap().seat, ConnectionPurpose::Reserve, "nobody was idle for long");
    let late = now + IDLE_EVICTED_AFTER * 2;
    let admitted = admission.admit(ip("192.0.2.1"), late).unwrap();
    assert_eq!(admitted.seat, ConnectionPurpose::Ordinary);
    assert!(seats[0].state.is_evicted.load(Ordering::Relaxed));
    assert_eq!(admission.admit(ip("192.0.2.1"), late).unwrap().seat, ConnectionPurpose::Reserve, "nobody else is idle");
}
