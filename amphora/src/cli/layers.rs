//! The source of a setting: command line, else environment, else config file, else default.
//!
//! - Environment and file become defaults of the command line's own parser, so a value means the same wherever it is
//!   written.
//! - Each value is validated where it is written, even if another source overrides it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, Parser};

use crate::config::Env;
use crate::failure::Failure;

/// Variables of the container interfaces that stand for one of ours, with lower precedence.
const ALIASES: [(&str, &str); 2] = [("csi-endpoint", "CSI_ENDPOINT"), ("cosi-endpoint", "COSI_ENDPOINT")];

/// The largest config file in bytes.
const FILE_MAX: u64 = 1 << 20;

const SERVE: &str = "serve";
const NODE: &str = "node";

/// Parses a command line, on top of the environment and the config file it names.
///
/// # Errors
/// [`Failure::Clap`] for the command line itself, [`Failure::Usage`] for the other sources.
pub(super) fn parse<C: Parser>(args: impl IntoIterator<Item = OsString>, env: Env<'_>) -> Result<C, Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    let command = with_environment(C::command(), env)?;
    let mut matches = command.clone().try_get_matches_from(&args)?;
    if let Some(file) = config_file(&matches) {
        matches = with_file(command, &file, env)?.try_get_matches_from(&args)?;
    }
    Ok(C::from_arg_matches(&matches)?)
}

fn config_file(matches: &ArgMatches) -> Option<PathBuf> {
    let (name, serve) = matches.subcommand()?;
    (name == SERVE).then(|| serve.get_one::<PathBuf>("config").cloned()).flatten()
}

fn with_environment(mut command: Command, env: Env<'_>) -> Result<Command, Failure> {
    for (arg, level) in settings(&command) {
        if let Some((variable, value)) = from_environment(&arg, env) {
            check(&arg, &value).map_err(|why| {
                let shown = shown(&arg, value.to_string_lossy());
                Failure::usage(format!("the environment variable {variable} holds \"{shown}\": {why}"))
            })?;
            command = set_default(command, level, &arg, value);
        }
    }
    Ok(command)
}

/// The variable that sets an argument, and its value. An empty value counts as unset, since deployments leave such
/// values.
fn from_environment(arg: &Arg, env: Env<'_>) -> Option<(String, OsString)> {
    let long = arg.get_long()?;
    let own = format!("AMPHORA_{}", long.replace('-', "_").to_uppercase());
    let aliases = ALIASES.iter().filter(|(flag, _)| *flag == long).map(|(_, variable)| (*variable).to_owned());
    let mut names = std::iter::once(own).chain(aliases);
    names.find_map(|name| env(&name).filter(|value| !value.is_empty()).map(|value| (name, value)))
}

fn with_file(mut command: Command, file: &Path, env: Env<'_>) -> Result<Command, Failure> {
    let shown = file.display();
    let unread = |why: &dyn std::fmt::Display| Failure::usage(format!("the config file {shown} cannot be read: {why}"));
    let (bytes, _) = objstore::disk::read_named(file, FILE_MAX).map_err(|error| unread(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| unread(&error))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        Failure::usage(format!("the config file {shown}, line {line}, is not TOML: {}", error.message()))
    })?;
    let settings: Vec<_> = settings(&command).into_iter().filter(|(_, level)| *level != Level::Node).collect();
    for (key, value) in table {
        let known = settings.iter().find(|(arg, _)| arg.get_long() == Some(&key) && key != "config");
        let Some((arg, level)) = known else {
            return Err(Failure::usage(unknown_key(file, &key, &settings)));
        };
        let value = plain(arg, &value).and_then(|value| check(arg, &value).map(|()| value)).map_err(|why| {
            let value = self::shown(arg, value.to_string());
            Failure::usage(format!("the config file {shown} sets {key} = {value}: {why}"))
        })?;
        if from_environment(arg, env).is_none() {
            command = set_default(command, *level, arg, value);
        }
    }
    Ok(command)
}

/// A value for an error, unless it may be a secret: those are not shown as defaults either.
fn shown<'a>(arg: &Arg, value: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
    if arg.is_hide_default_value_set() { "(not shown)".into() } else { value.into() }
}

fn unknown_key(file: &Path, key: &str, settings: &[(Arg, Level)]) -> String {
    let mut known: Vec<_> = settings.iter().filter_map(|(arg, _)| arg.get_long()).filter(|k| *k != "config").collect();
    known.sort_unstable();
    format!("the config file {} has the unknown key {key}: known are {}", file.display(), known.join(", "))
}

/// The command level at which an argument is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Every,
    Serve,
    /// Only the environment sets these.
    Node,
}

/// All arguments that the environment and the file may set.
fn settings(command: &Command) -> Vec<(Arg, Level)> {
    let every = command.get_arguments().map(|arg| (arg.clone(), Level::Every));
    let serve = command.find_subcommand(SERVE).into_iter().flat_map(Command::get_arguments);
    let node = command.find_subcommand(NODE).into_iter().flat_map(Command::get_arguments);
    let node = node.filter(|arg| !arg.is_hide_set()).map(|arg| (arg.clone(), Level::Node));
    every.chain(serve.map(|arg| (arg.clone(), Level::Serve))).chain(node).collect()
}

fn set_default(command: Command, level: Level, arg: &Arg, value: OsString) -> Command {
    let id = arg.get_id().clone();
    match level {
        Level::Every => command.mut_arg(id, |arg| arg.default_value(value)),
        Level::Node => command.mut_subcommand(NODE, |node| node.mut_arg(id, |arg| arg.default_value(value))),
        Level::Serve => command.mut_subcommand(SERVE, |serve| serve.mut_arg(id, |arg| arg.default_value(value))),
    }
}

/// Validates a value with the parser of its argument.
fn check(arg: &Arg, value: &OsStr) -> Result<(), String> {
    let mut given = OsString::from(format!("--{}=", arg.get_long().unwrap_or_default()));
    given.push(value);
    let parser = Command::new("value").no_binary_name(true).disable_help_flag(true).arg(arg.clone());
    parser.try_get_matches_from([given]).map(drop).map_err(|error| {
        // Our parsers say what is wrong. Clap's own text begins with the flag, and its hints follow the first line.
        let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let possible = text.lines().find(|line| line.contains("possible values")).or_else(|| text.lines().next());
        possible.unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
    })
}

/// A value of the file in the form of the command line. Lists are for flags with several values.
fn plain(arg: &Arg, value: &toml::Value) -> Result<OsString, String> {
    match (value, arg.get_value_delimiter()) {
        (toml::Value::Array(values), Some(delimiter)) => {
            let texts = values.iter().map(|value| value.as_str().ok_or("it has to be a list of texts"));
            let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
            Ok(texts.join(&delimiter.to_string()).into())
        }
        (value, _) => scalar(value),
    }
}

fn scalar(value: &toml::Value) -> Result<OsString, String> {
    match value {
        toml::Value::String(text) => Ok(text.into()),
        toml::Value::Integer(number) => Ok(number.to_string().into()),
        toml::Value::Boolean(truth) => Ok(truth.to_string().into()),
        _ => Err("it has to be a text or a number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli};
    use crate::config::{Flags, LogFormat};

    fn parse_all(args: &[&str], env: &[(&str, &str)]) -> Result<Cli, Failure> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        parse(["amphora", "serve"].iter().chain(args).map(OsString::from), &env)
    }

    fn serve(args: &[&str], env: &[(&str, &str)]) -> Flags {
        match parse_all(args, env).unwrap_or_else(|error| panic!("{error}")).command {
            cli::Command::Serve(flags) => flags,
            other => panic!("{other:?}"),
        }
    }

    fn refused(args: &[&str], env: &[(&str, &str)]) -> String {
        let failure = parse_all(args, env).expect_err("refused");
        assert_eq!(format!("{:?}", failure.exit_code()), format!("{:?}", std::process::ExitCode::from(2)));
        failure.to_string()
    }

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("amphora.toml");
        std::fs::write(&path, text).expect("written");
        let flag = format!("--config={}", path.display());
        (dir, flag)
    }

    #[test]
    fn flag_goes_before_environment_before_file_before_default() {
        let (_dir, config) = file(
            "region = \"from-file\"\ns3-listen = \"127.0.0.1:1\"\nnode-id = \"n1\"\n\
             s3-block-public-access = false\nlifecycle-day = \"10s\"\ntls-cert = \"c.pem\"\n",
        );
        let env = [("AMPHORA_REGION", "from-env"), ("AMPHORA_S3_LISTEN", "127.0.0.1:2")];
        let flags = serve(&[&config, "--region=from-flag"], &env);
        assert_eq!(flags.region, "from-flag");
        assert_eq!(flags.s3_listen.port(), 2);
        assert_eq!(flags.node_id.as_deref(), Some("n1"));
        assert!(!flags.s3_block_public_access);
        assert_eq!(flags.lifecycle_day.0, std::time::Duration::from_secs(10));
        assert_eq!(flags.tls_cert.as_deref(), Some(Path::new("c.pem")));
        assert_eq!(flags.http_listen.port(), 9001);
        assert_eq!(flags.log_format, LogFormat::Text);
    }

    #[test]
    fn several_values_are_written_as_a_list_or_with_commas() {
        let named = |args: &[&str], env: &[(&str, &str)]| format!("{:?}", serve(args, env).s3_domain);
        let both = named(&["--s3-domain=s3.a", "--s3-domain=s3.b"], &[]);
        assert!(both.contains("s3.a") && both.contains("s3.b"), "{both}");
        assert_eq!(named(&["--s3-domain=s3.a,s3.b"], &[]), both);
        assert_eq!(named(&[], &[("AMPHORA_S3_DOMAIN", "s3.a,s3.b")]), both);
        for text in ["s3-domain = \"s3.a,s3.b\"", "s3-domain = [\"s3.a\", \"s3.b\"]"] {
            let (_dir, config) = file(text);
            assert_eq!(named(&[&config], &[]), both);
        }
    }

    #[test]
    fn the_environment_sets_the_flags_of_a_node_too() {
        let variables =
            [("AMPHORA_SERVER", "store:9002"), ("AMPHORA_NO_HOLDER", "true"), ("AMPHORA_LOG_LEVEL", "debug")];
        let env = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        let parsed: Cli = parse(["amphora", "node", "--node-id=n1"].map(OsString::from), &env).expect("parsed");
        let cli::Command::Node(cli::node::Node { flags, .. }) = parsed.command else { panic!("a node") };
        assert_eq!((flags.server.as_deref(), flags.node_id.as_deref()), (Some("store:9002"), Some("n1")));
        assert!(flags.no_holder && !flags.core_dumps && flags.log_level == "debug");
        let (_dir, config) = file("server = \"store:9002\"");
        assert!(refused(&[&config], &[]).contains("unknown key server"));
    }

    #[test]
    fn the_environment_may_name_the_file() {
        let (_dir, config) = file("log-format = \"json\"\nadmin-endpoint = \"unix:///run/x.sock\"\n");
        let path = config.strip_prefix("--config=").expect("a flag");
        let cli = parse_all(&[], &[("AMPHORA_CONFIG", path)]).expect("parsed");
        assert_eq!(cli.admin_endpoint.expect("set").to_string(), "unix:///run/x.sock");
        assert!(matches!(cli.command, cli::Command::Serve(flags) if flags.log_format == LogFormat::Json));
    }

    #[test]
    fn the_endpoints_of_the_container_interfaces_are_honoured_after_ours() {
        let shown = |env: &[(&str, &str)]| serve(&[], env).csi_endpoint.map(|socket| socket.to_string());
        assert_eq!(shown(&[("CSI_ENDPOINT", "unix:/csi/csi.sock")]).as_deref(), Some("unix:///csi/csi.sock"));
        let both = [("CSI_ENDPOINT", "unix:/csi/csi.sock"), ("AMPHORA_CSI_ENDPOINT", "unix:///our.sock")];
        assert_eq!(shown(&both).as_deref(), Some("unix:///our.sock"));
        assert_eq!(shown(&[("CSI_ENDPOINT", "")]), None);
    }

    #[test]
    fn bad_values_are_named_with_their_key() {
        let text = refused(&[], &[("AMPHORA_S3_LISTEN", "nine")]);
        assert!(
            text.contains("AMPHORA_S3_LISTEN") && text.contains("\"nine\"") && text.contains("IP address"),
            "{text}"
        );
        let text = refused(&[], &[("CSI_ENDPOINT", "tcp://1.2.3.4:5")]);
        assert!(text.contains("CSI_ENDPOINT") && text.contains("unix://"), "{text}");
        for (line, words) in [
            ("s3-listen = \"nine\"", vec!["s3-listen", "nine", "IP address"]),
            ("log-format = \"xml\"", vec!["log-format", "xml", "json"]),
            ("s3-domain = [1]", vec!["s3-domain", "list of texts"]),
            ("s3-domain = [\"a\", \"b:1\"]", vec!["s3-domain", "DNS name"]),
            ("s3-max-connections = 0", vec!["s3-max-connections", "whole number"]),
            ("s3-body-memory = \"1Mi\"", vec!["s3-body-memory", "16Mi"]),
            ("s3-answer-memory = \"much\"", vec!["s3-answer-memory", "Ki, Mi"]),
            ("s3-block-public-access = \"maybe\"", vec!["s3-block-public-access", "true"]),
            ("lifecycle-day = 24", vec!["lifecycle-day", "24h"]),
            ("no-holder = 7", vec!["no-holder", "true"]),
            ("region = [1]", vec!["region", "text or a number"]),
            ("s3_listen = \"127.0.0.1:1\"", vec!["unknown key s3_listen", "s3-listen"]),
            ("config = \"other.toml\"", vec!["unknown key config"]),
            ("region = ", vec!["line 1", "not TOML"]),
        ] {
            let (_dir, config) = file(line);
            let text = refused(&[&config], &[]);
            assert!(words.iter().all(|word| text.contains(word)), "{line}: {text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    #[test]
    fn a_bad_file_is_refused_also_where_a_flag_overrides_it() {
        let (_dir, config) = file("s3-listen = \"nine\"");
        assert!(refused(&[&config, "--s3-listen=127.0.0.1:1"], &[]).contains("s3-listen"));
        assert!(refused(&["--config=/nowhere/x.toml"], &[]).contains("/nowhere/x.toml"));
    }

    #[test]
    fn a_url_that_may_hold_a_password_is_not_shown() {
        let url = "postgres://u:hush-hush@h/d";
        let help = parse_all(&["--help"], &[("AMPHORA_METADATA_URL", url)]).expect_err("the help").to_string();
        assert!(help.contains("--metadata-url") && !help.contains("hush"), "{help}");
        let (_dir, config) = file(&format!("metadata-url = [\"{url}\"]"));
        let refused = refused(&[&config], &[]);
        assert!(refused.contains("metadata-url") && !refused.contains("hush"), "{refused}");
    }

    #[test]
    fn the_example_file_is_good_with_all_its_lines() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/amphora.toml");
        let text = std::fs::read_to_string(example).expect("deploy/amphora.toml");
        let uncommented = |line: &str| match line.strip_prefix("# ") {
            Some(setting) if setting.split(" = ").next().is_some_and(|key| !key.contains(' ')) => setting.to_owned(),
            _ => line.to_owned(),
        };
        let all: Vec<_> = text.lines().map(uncommented).collect();
        assert!(all.iter().any(|line| line.starts_with("log-level = ")), "commented lines count too");
        for text in [text, all.join("\n")] {
            let (_dir, config) = file(&text);
            serve(&[&config], &[]);
        }
    }
}
