//! Every profile under config/providers/ can be read, says where its facts come from, and is named after its vendor.

use std::collections::BTreeSet;
use std::path::Path;

use sendonce::domain::profile::Profile;

#[test]
fn every_shipped_profile_can_be_read_and_gives_its_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/providers");
    let mut operations = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let profile = Profile::parse(&text).unwrap_or_else(|faults| panic!("{name}: {faults:#?}"));
        assert!(
            name.starts_with(&*profile.vendor),
            "{name} is named after its vendor"
        );
        assert!(
            text.starts_with("# "),
            "{name} begins with what it is and who says so"
        );
        assert!(
            text.contains("read 2") || text.contains("expired on"),
            "{name} dates its sources"
        );
        let operation = (profile.vendor.clone(), profile.operation.clone());
        assert!(
            operations.insert(operation),
            "{name} describes an operation of its own"
        );
    }
    assert!(operations.len() >= 30);
}
