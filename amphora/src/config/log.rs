//! The values of `--log-level` and `--log-format`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Parses the value of `--log-level`.
pub(crate) fn filter(text: &str) -> Result<String, String> {
    let known = "use off, error, warn, info, debug or trace, also by module, as in info,s3=debug";
    let plain = !text.trim().is_empty() && text.split(',').all(|part| level(part).is_some());
    match EnvFilter::builder().parse(text) {
        Ok(_) if plain => Ok(text.to_owned()),
        _ => Err(known.into()),
    }
}

/// The level in `info` or `module=info`. `EnvFilter` would take a misspelt level for a module's name.
fn level(part: &str) -> Option<LevelFilter> {
    part.rsplit('=').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_with_or_without_a_module() {
        for good in ["info", "off", "warn,s3=debug", "TRACE"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "info,s3=loud", "s3"] {
            assert!(filter(bad).expect_err(bad).contains("debug"), "{bad}");
        }
    }
}
