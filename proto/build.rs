//! Compiles the `.proto` files, without protoc, to messages, services and a descriptor set.
//!
//! - A message with a secret gets a `Debug` that omits the secret. The descriptors say which fields are secrets, so
//!   that a new one is not forgotten.
//! - A field named like a secret but not marked as one fails the build.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

/// Every `.proto` file, and the module of `lib.rs` that contains its package.
const PACKAGES: [(&str, &str, &str); 4] = [
    ("csi.proto", "csi.v1", "crate::csi::v1"),
    ("cosi/v1alpha1.proto", "cosi.v1alpha1", "crate::cosi::v1alpha1"),
    ("cosi/v1alpha2.proto", "sigs.k8s.io.cosi.v1alpha2", "crate::cosi::v1alpha2"),
    ("amphora/admin.proto", "amphora.admin.v1", "crate::amphora::admin::v1"),
];

/// Options that mark a field as a secret.
const SECRET_OPTIONS: [&str; 4] = [
    "csi.v1.csi_secret",
    "cosi.v1alpha1.cosi_secret",
    "sigs.k8s.io.cosi.v1alpha2.cosi_secret",
    "google.protobuf.FieldOptions.debug_redact",
];

/// Secret fields that upstream does not mark; our files must agree with upstream's and cannot mark them.
const UNMARKED_SECRETS: [&str; 8] = [
    // The ticket of a publication.
    "csi.v1.ControllerPublishVolumeResponse.publish_context",
    "csi.v1.NodeStageVolumeRequest.publish_context",
    "csi.v1.NodePublishVolumeRequest.publish_context",
    "csi.v1.VolumeCapability.MountVolume.mount_flags",
    "cosi.v1alpha1.CredentialDetails.secrets",
    "sigs.k8s.io.cosi.v1alpha2.S3CredentialInfo.access_secret_key",
    "sigs.k8s.io.cosi.v1alpha2.AzureCredentialInfo.access_token",
    "sigs.k8s.io.cosi.v1alpha2.GcsCredentialInfo.access_secret",
];

/// Parts of names that fields with secrets are likely to have.
const SECRET_WORDS: [&str; 4] = ["secret", "password", "passphrase", "access_token"];

fn main() -> Result<(), Box<dyn Error>> {
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["."])?;
    compiler.include_imports(true);
    for (file, _, _) in PACKAGES {
        println!("cargo:rerun-if-changed={file}");
        compiler.open_file(file)?;
    }
    fs::write(out_dir.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;

    let secrets = secrets_by_message(&compiler.descriptor_pool())?;
    write_debug_impls(&out_dir.join("debug.rs"), &secrets)?;
    let fields = secrets.values().flat_map(|(_, fields)| fields).map(|field| field.full_name().to_owned());
    fs::write(out_dir.join("secret_fields.rs"), format!("&{:?}", fields.collect::<Vec<_>>()))?;

    // Comments serve only as documentation of the generated code.
    compiler.include_source_info(true);
    tonic_prost_build::configure()
        .skip_debug(secrets.keys().map(|message| format!(".{message}")))
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// Messages with secrets, and the secret fields of each.
type Secrets = BTreeMap<String, (MessageDescriptor, Vec<FieldDescriptor>)>;

fn secrets_by_message(pool: &DescriptorPool) -> Result<Secrets, Box<dyn Error>> {
    if let Some(name) = UNMARKED_SECRETS.iter().find(|name| !has_field(pool, name)) {
        return Err(format!("UNMARKED_SECRETS names {name}, which does not exist; correct it").into());
    }
    let mut secrets = Secrets::new();
    for message in pool.all_messages().filter(is_ours) {
        let fields: Vec<_> = message.fields().filter(is_secret).collect();
        if let Some(field) = message.fields().find(|field| named_like_secret(field) && !fields.contains(field)) {
            return Err(format!("{} is named like a secret; mark it as one", field.full_name()).into());
        }
        if !fields.is_empty() {
            check_shape(&message)?;
            secrets.insert(message.full_name().to_owned(), (message, fields));
        }
    }
    Ok(secrets)
}

fn has_field(pool: &DescriptorPool, full_name: &str) -> bool {
    let (message, field) = full_name.rsplit_once('.').unwrap_or_default();
    pool.get_message_by_name(message).is_some_and(|message| message.get_field_by_name(field).is_some())
}

fn is_ours(message: &MessageDescriptor) -> bool {
    !message.is_map_entry() && PACKAGES.iter().any(|(_, package, _)| *package == message.package_name())
}

fn is_secret(field: &FieldDescriptor) -> bool {
    let options = field.options();
    let marked = options
        .extensions()
        .map(|(option, value)| (option.full_name().to_owned(), value))
        .chain(options.fields().map(|(option, value)| (option.full_name().to_owned(), value)))
        .any(|(option, value)| SECRET_OPTIONS.contains(&option.as_str()) && value.as_bool() == Some(true));
    marked || UNMARKED_SECRETS.contains(&field.full_name())
}

fn named_like_secret(field: &FieldDescriptor) -> bool {
    SECRET_WORDS.iter().any(|word| field.name().contains(word))
}

/// `skip_debug` reaches the oneofs and nested messages of a message too, which the impls
/// written here would leave without any `Debug`.
fn check_shape(message: &MessageDescriptor) -> Result<(), Box<dyn Error>> {
    let oneof = message.oneofs().any(|oneof| !oneof.is_synthetic());
    let nested = message.child_messages().any(|child| !child.is_map_entry()) || message.child_enums().len() > 0;
    if oneof || nested {
        let name = message.full_name();
        return Err(format!("{name} holds a secret beside a oneof or a nested type; move the secret out").into());
    }
    Ok(())
}

fn write_debug_impls(path: &Path, secrets: &Secrets) -> Result<(), Box<dyn Error>> {
    let mut code = String::new();
    for (message, fields) in secrets.values() {
        write_debug_impl(&mut code, message, fields)?;
    }
    Ok(fs::write(path, code)?)
}

fn write_debug_impl(code: &mut String, message: &MessageDescriptor, secrets: &[FieldDescriptor]) -> std::fmt::Result {
    let (path, name) = (rust_path(message), message.name());
    writeln!(code, "impl ::core::fmt::Debug for {path} {{")?;
    writeln!(code, "    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{")?;
    writeln!(code, "        f.debug_struct({name:?})")?;
    for field in message.fields() {
        let field_name = field.name();
        let value = if secrets.contains(&field) { "&Redacted".into() } else { format!("&self.{field_name}") };
        writeln!(code, "            .field({field_name:?}, {value})")?;
    }
    writeln!(code, "            .finish()\n    }}\n}}")
}

/// A name that prost spells differently does not compile, so a mistake here is noticed.
fn rust_path(message: &MessageDescriptor) -> String {
    let package = message.package_name();
    let (_, _, mut path) =
        PACKAGES.iter().find(|(_, name, _)| *name == package).map(|p| (p.0, p.1, p.2.to_owned())).unwrap_or_default();
    let mut parents: Vec<_> =
        std::iter::successors(message.parent_message(), MessageDescriptor::parent_message).collect();
    parents.reverse();
    for parent in parents {
        path = format!("{path}::{}", snake_case(parent.name()));
    }
    format!("{path}::{}", message.name())
}

fn snake_case(camel: &str) -> String {
    let mut snake = String::new();
    for (i, letter) in camel.chars().enumerate() {
        if i > 0 && letter.is_uppercase() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
