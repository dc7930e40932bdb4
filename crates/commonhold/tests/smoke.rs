//! The first things anybody tries: many pairs in each mode, read back, deleted, checked.
use commonhold::Hold;
use commonhold::map::MapOptions;

fn run(options: MapOptions, fixed: bool) {
    let dir = std::env::temp_dir().join(format!("ch-smoke-{}-{fixed}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let hold = Hold::create(dir.join("a.hold")).unwrap();
    let map = hold.maps().open_or_create("m", options).unwrap();
    let n = 300_000u32;
    let t = std::time::Instant::now();
    for k in 0..n {
        map.set(k.to_le_bytes(), k.to_le_bytes()).unwrap();
    }
    eprintln!("set {:?}", t.elapsed());
    assert_eq!(map.len().unwrap(), u64::from(n));
    for k in 0..n {
        assert_eq!(map.get(k.to_le_bytes()).unwrap().unwrap(), k.to_le_bytes());
    }
    assert_eq!(map.get(n.to_le_bytes()).unwrap(), None);
    assert_eq!(map.iter().count(), n as usize);
    let report = hold.check().unwrap();
    assert!(report.ok, "{report:?}");
    for k in 0..n {
        assert!(map.delete(k.to_le_bytes()).unwrap());
    }
    assert_eq!(map.iter().count(), 0);
    let report = hold.check().unwrap();
    assert!(report.ok, "{report:?}");
    drop((map, hold));
    let hold = Hold::open(dir.join("a.hold")).unwrap();
    assert!(hold.maps().drop("m").unwrap());
    let report = hold.check().unwrap();
    assert!(report.ok, "{report:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn general() {
    run(MapOptions::general(), false);
}

#[test]
fn fixed() {
    run(MapOptions::fixed(4, 4), true);
}
