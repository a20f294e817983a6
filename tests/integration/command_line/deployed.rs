//! What `compose.yaml` and the image set is what the configuration takes.

use std::fs;

use super::{sendonce, text};

/// The environment of the service `name` in `compose.yaml`, over the image's own. Both are read as the plain lines that they
/// are.
fn environment(name: &str) -> Vec<(String, String)> {
    let rooted =
        |file: &str| fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let image = rooted("Dockerfile");
    let image = image
        .lines()
        .map(|line| {
            line.trim_start_matches("ENV ")
                .trim()
                .trim_end_matches(" \\")
        })
        .filter(|line| line.starts_with("SENDONCE__"))
        .map(|line| line.split_once('=').unwrap());
    let compose = rooted("compose.yaml");
    let service = compose
        .split_once(&format!("\n  {name}:\n"))
        .unwrap()
        .1
        .lines()
        .take_while(|line| line.starts_with("    "));
    let set = service
        .skip_while(|line| !line.starts_with("    environment:"))
        .skip(1)
        .take_while(|line| line.starts_with("      "))
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| line.trim().split_once(": ").unwrap());
    image
        .chain(set)
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

#[test]
fn what_compose_and_the_image_set_can_run() {
    let environment = environment("sendonce");
    assert!(environment.len() > 4, "{environment:?}");
    let borrowed: Vec<(&str, &str)> = environment
        .iter()
        .filter(|(name, _)| name != "SENDONCE__PROVIDERS__DIRECTORY")
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let typed = ["--config", "config/sendonce.example.toml", "check"];
    let output = sendonce(&typed, &borrowed, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}
