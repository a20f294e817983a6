//! Prepares the requests of the bare client: those that the pipeline makes of the same intents, by the same functions.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};

use super::bare::Prepared;
use crate::cli::stage::cast::{Cue, cue};
use crate::cli::stage::instance::{KEY_SECRET, NAMESPACE, Setting, profile};
use crate::domain::intent::decode::{Decoded, IntakeRules, RecordView, decode};
use crate::domain::key_ring::{KeySecret, Namespace, derive};
use crate::domain::profile::Profile;
use crate::domain::render::render;

/// Writes the requests of so many intents to a file, one a line.
///
/// # Errors
///
/// When an intent cannot be rendered, or the file cannot be written.
pub fn write(path: &Path, intents: u64, setting: &Setting) -> anyhow::Result<()> {
    let maker = Maker::new(setting)?;
    let mut file = std::io::BufWriter::new(
        std::fs::File::create(path)
            .with_context(|| format!("{} cannot be created", path.display()))?,
    );
    for number in 0..intents {
        serde_json::to_writer(&mut file, &maker.prepare(&cue(number))?)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

/// Makes requests as the pipeline does.
struct Maker {
    profile: Profile,
    secret: KeySecret,
    namespace: Namespace,
    rules: IntakeRules,
}

impl Maker {
    fn new(setting: &Setting) -> anyhow::Result<Self> {
        let profile = Profile::parse(&profile(setting))
            .map_err(|faults| anyhow::anyhow!("the rehearsal's profile: {faults:?}"))?;
        Ok(Self {
            profile,
            secret: KeySecret::new(KEY_SECRET.as_bytes())
                .context("the rehearsal's secret is too short")?,
            namespace: Namespace::new(NAMESPACE).context("the rehearsal's namespace is none")?,
            rules: IntakeRules::default(),
        })
    }

    fn prepare(&self, cue: &Cue) -> anyhow::Result<Prepared> {
        let record = RecordView {
            value: Some(cue.value.as_bytes()),
            headers: &[],
            headers_unreadable: 0,
        };
        let Decoded::Intent(intent) = decode(&record, &self.rules) else {
            bail!("{} is no intent", cue.id);
        };
        let key = derive(&self.secret, &self.namespace, &intent);
        let request = render(&self.profile, &intent, &key)?;
        Ok(Prepared {
            key: key.as_str().to_owned(),
            body: String::from_utf8(request.body.to_vec())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_prepared_request_is_what_the_pipeline_makes_of_the_intent() {
        let setting = Setting {
            brokers: String::new(),
            group: String::new(),
            topic: String::new(),
            messages_url: "http://127.0.0.1:8090/v1/messages".to_owned(),
            request_timeout: Duration::from_secs(1),
            concurrency: 1,
        };
        insta::assert_debug_snapshot!(Maker::new(&setting).unwrap().prepare(&cue(42)).unwrap());
    }
}
