//! The effect of S3 requests on the model.

use super::model::{Actor, File, Model, Name, parent};
use super::step::Refusal;

impl Model {
    /// PutObject; a key that ends in `/` is put without content.
    pub fn put(&mut self, key: &str, content: Vec<u8>, metadata: Option<String>) -> Result<(), Refusal> {
        if key.ends_with('/') {
            self.ensure_directories(key);
            self.names.insert(key.to_owned(), Name::Directory { explicit: true });
            return Ok(());
        }
        if self.over(content.len() as u64, self.replaced_bytes(key)) {
            return Err(Refusal::quota());
        }
        self.place(key, File { metadata, ..File::new(content) });
        Ok(())
    }

    /// A multipart upload of one part: its bytes count beside those it will replace.
    pub fn upload(&mut self, key: &str, content: Vec<u8>) -> Result<(), Refusal> {
        if self.over(content.len() as u64, 0) {
            return Err(Refusal::quota());
        }
        self.place(key, File::new(content));
        Ok(())
    }

    /// CopyObject, with the metadata.
    pub fn copy(&mut self, from: &str, to: &str) -> Result<(), Refusal> {
        let Some(source) = self.file_at(from) else { return Err(Refusal::s3("NoSuchKey")) };
        let File { content, metadata, .. } = self.files[&source].clone();
        self.put(to, content, metadata)
    }

    /// DeleteObject.
    pub fn delete(&mut self, key: &str) -> Result<(), Refusal> {
        match self.names.get(key) {
            Some(Name::File(_)) => self.remove(key, Actor::S3),
            Some(Name::Directory { explicit: true }) => {
                self.names.insert(key.to_owned(), Name::Directory { explicit: false });
                self.update_implicit(key, Actor::S3);
            }
            Some(Name::Directory { explicit: false } | Name::Link(_)) | None => {}
        }
        Ok(())
    }

    fn replaced_bytes(&self, key: &str) -> u64 {
        let only = self.file_at(key).filter(|id| self.links(*id) == 1);
        only.map_or(0, |id| self.files[&id].content.len() as u64)
    }

    /// Puts a file under a key. It keeps the permissions of the one it replaces.
    fn place(&mut self, key: &str, mut file: File) {
        self.ensure_directories(key);
        file.mode = self.file_at(key).and_then(|id| self.files[&id].mode);
        let id = self.add_file(file);
        self.names.insert(key.to_owned(), Name::File(id));
        self.update_implicit(parent(key), Actor::Mount);
        self.collect();
    }
}
