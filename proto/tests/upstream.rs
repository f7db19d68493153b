//! Comparison of our `.proto` descriptors with those of upstream.
//!
//! - Everything in a descriptor counts: names, numbers, types, labels, oneofs, enums, services, options and extensions.
//!   Only comments, the order of declarations and `go_package` do not.
//! - Upstream files come from `go mod download`, or from a file named in the environment. Where neither is available, a
//!   test says so and passes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use protox::prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};

const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// An upstream `.proto` file, and the file of ours that must agree with it.
struct Upstream {
    ours: &'static str,
    module: &'static str,
    version: &'static str,
    /// The path in the Go module.
    file: &'static str,
    /// The environment variable that may name a copy of the file.
    variable: &'static str,
}

#[test]
fn csi_agrees_with_upstream() {
    compare(&Upstream {
        ours: "csi.proto",
        module: "github.com/container-storage-interface/spec",
        version: "v1.12.0",
        file: "csi.proto",
        variable: "UPSTREAM_CSI_PROTO",
    });
}

#[test]
fn cosi_v1alpha1_agrees_with_upstream() {
    compare(&Upstream {
        ours: "cosi/v1alpha1.proto",
        module: "sigs.k8s.io/container-object-storage-interface/proto",
        version: "v0.2.2",
        file: "cosi.proto",
        variable: "UPSTREAM_COSI_V1ALPHA1_PROTO",
    });
}

#[test]
fn cosi_v1alpha2_agrees_with_upstream() {
    compare(&Upstream {
        ours: "cosi/v1alpha2.proto",
        module: "sigs.k8s.io/container-object-storage-interface/proto",
        // No release has v1alpha2 yet; go also accepts a commit.
        version: "55ddd73b5a3480d23c7224d9d903f70bd2e17148",
        file: "cosi.proto",
        variable: "UPSTREAM_COSI_V1ALPHA2_PROTO",
    });
}

/// The comparison notices every kind of difference.
#[test]
fn comparison_sees_a_change() {
    let proto = fs::read_to_string("csi.proto").unwrap();
    for (from, to) in [
        ("string vendor_version = 2;", "string vendor_version = 4;"),
        ("string vendor_version = 2;", "bytes vendor_version = 2;"),
        ("string vendor_version = 2;", "repeated string vendor_version = 2;"),
        ("string vendor_version = 2;", ""),
        ("secrets = 5 [(csi_secret) = true];", "secrets = 5;"),
        ("GET_SNAPSHOT = 15 [(alpha_enum_value) = true];", "GET_SNAPSHOT = 15;"),
        ("option (alpha_service) = true;", ""),
        ("returns (stream GetMetadataDeltaResponse)", "returns (GetMetadataDeltaResponse)"),
        ("bool csi_secret = 1059;", "bool csi_secret = 1058;"),
        ("MountVolume mount = 2;\n  }", "}\n  MountVolume mount = 2;"),
    ] {
        assert!(proto.contains(from), "csi.proto no longer holds {from:?}; choose another example");
        let folder = tempfile::tempdir().unwrap();
        let changed = folder.path().join("csi.proto");
        fs::write(&changed, proto.replacen(from, to, 1)).unwrap();
        assert_ne!(our_facts("csi.proto"), file_facts(&changed), "{from:?} became {to:?} unnoticed");
    }
}

fn compare(upstream: &Upstream) {
    let path = match locate(upstream) {
        Ok(path) => path,
        Err(reason) => return skip(upstream, &reason),
    };
    let (ours, theirs) = (our_facts(upstream.ours), file_facts(&path));
    let missing = theirs.iter().filter(|(fact, value)| ours.get(*fact) != Some(value));
    let extra = ours.iter().filter(|(fact, value)| theirs.get(*fact) != Some(value));
    let differences: Vec<_> = missing
        .map(|(fact, value)| format!("upstream: {fact} = {value}"))
        .chain(extra.map(|(fact, value)| format!("ours:     {fact} = {value}")))
        .collect();
    assert!(!theirs.is_empty(), "{} holds no descriptor", path.display());
    assert!(differences.is_empty(), "{} differs from {}:\n{}", upstream.ours, path.display(), differences.join("\n"));
}

#[expect(clippy::print_stderr, reason = "a skipped test must say why")]
fn skip(upstream: &Upstream, reason: &str) {
    let Upstream { ours, module, version, variable, .. } = upstream;
    eprintln!("skipped: {ours} was not compared with {module}@{version}: {reason} (or set {variable} to a copy)");
}

fn locate(upstream: &Upstream) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(upstream.variable) {
        return Ok(path.into());
    }
    let module = format!("{}@{}", upstream.module, upstream.version);
    let answer = go_mod_download(&module)?;
    let answer: serde_json::Value = serde_json::from_str(&answer).map_err(|e| format!("go answered no JSON: {e}"))?;
    match (&answer["Dir"], &answer["Error"]) {
        (serde_json::Value::String(dir), _) => Ok(Path::new(dir).join(upstream.file)),
        (_, error) => Err(format!("go mod download: {error}")),
    }
}

/// The output of `go mod download -json`, which also explains a failure.
fn go_mod_download(module: &str) -> Result<String, String> {
    // In a folder outside any Go module, so that none is changed.
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let answer = folder.path().join("answer.json");
    let stdout = fs::File::create(&answer).map_err(|e| e.to_string())?;
    let mut go = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot run go: {e}"))?;
    let deadline = Instant::now() + DOWNLOAD_TIMEOUT;
    while go.try_wait().map_err(|e| e.to_string())?.is_none() {
        if Instant::now() > deadline {
            // The process may have ended by itself; either way it is over.
            let _ = go.kill();
            let _ = go.wait();
            return Err(format!("go mod download took over {DOWNLOAD_TIMEOUT:?}"));
        }
        sleep(Duration::from_millis(50));
    }
    fs::read_to_string(&answer).map_err(|e| e.to_string())
}

/// One entry for each set field of a file's descriptor: its position and its value.
type Facts = BTreeMap<String, String>;

fn our_facts(file: &str) -> Facts {
    facts(&DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).unwrap(), file)
}

fn file_facts(path: &Path) -> Facts {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut compiler = protox::Compiler::new([path.parent().unwrap()]).unwrap();
    compiler.include_imports(true).open_file(name).unwrap();
    facts(&compiler.descriptor_pool(), name)
}

fn facts(pool: &DescriptorPool, file: &str) -> Facts {
    // The pool's own descriptor of descriptors knows the extensions, so options decode whole.
    let descriptor = pool.get_message_by_name("google.protobuf.FileDescriptorProto").unwrap();
    let encoded = pool.get_file_by_name(file).unwrap().encode_to_vec();
    let mut message = DynamicMessage::decode(descriptor, encoded.as_slice()).unwrap();
    message.clear_field_by_name("name");
    message.clear_field_by_name("source_code_info");
    let mut facts = Facts::new();
    collect_message(&message, "", &mut facts);
    facts.remove(".options.go_package");
    facts
}

fn collect_message(message: &DynamicMessage, at: &str, facts: &mut Facts) {
    assert_eq!(message.unknown_fields().count(), 0, "{at} has options this test cannot read");
    for (field, value) in message.fields() {
        collect(value, &format!("{at}.{}", field.name()), facts);
    }
    for (extension, value) in message.extensions() {
        collect(value, &format!("{at}.({})", extension.full_name()), facts);
    }
}

fn collect(value: &Value, at: &str, facts: &mut Facts) {
    match value {
        Value::Message(message) => collect_message(message, at, facts),
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                collect(item, &format!("{at}[{}]", key(item).unwrap_or_else(|| i.to_string())), facts);
            }
        }
        scalar => {
            facts.insert(at.to_owned(), format!("{scalar:?}"));
        }
    }
}

/// The key of a named element is its name, so that the order of declarations does not count.
fn key(item: &Value) -> Option<String> {
    let message = item.as_message()?;
    let name = message.descriptor().get_field_by_name("name")?;
    message.get_field(&name).as_str().map(str::to_owned)
}
