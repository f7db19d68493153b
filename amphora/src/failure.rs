//! Why a command failed, and the exit status for it.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed. The text is one line for people: what is wrong, with which value, and what to do.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage, found before anything was changed: exit status 2.
    Usage(String),
    /// A message of clap, with its exit status; `--help` and `--version` arrive here too.
    Clap(clap::Error),
    /// The operation was refused or failed: exit status 1.
    Failed(String),
    /// A process ended as it was told, and left what it served to the next one: exit status 75 (EX_TEMPFAIL).
    Left(String),
    /// A mount for mount(8) failed: exit status 32, as mount(8) requires.
    Mount(String),
}

impl Failure {
    /// The exit status of [`Failure::Left`].
    pub const LEFT: u8 = 75;

    /// A usage error.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// A refused or failed operation.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// The failure as a helper of mount(8) reports it: mount(8), EXIT STATUS.
    pub fn of_mount_helper(self) -> Self {
        match self {
            Self::Failed(text) => Self::Mount(text),
            Self::Usage(text) => Self::Failed(text),
            other => other,
        }
    }

    /// The exit status.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Clap(error) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Self::Failed(_) => ExitCode::from(1),
            Self::Left(_) => ExitCode::from(Self::LEFT),
            Self::Mount(_) => ExitCode::from(32),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Left(text) | Self::Mount(text) => f.write_str(text),
            Self::Clap(error) => write!(f, "{error}"),
        }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Clap(error)
    }
}

/// An error and its causes on one line.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
