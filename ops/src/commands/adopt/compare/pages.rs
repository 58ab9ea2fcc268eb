//! Whole lists of both sides. A server gives at most `[api] max_limit` entries in one answer, 1000 by default.

use std::collections::BTreeSet;

use serde_json::Value;

use super::difference::compare_answers;
use super::{ComparedRequest, NovaComparison};
use crate::commands::CommandFailure;
use crate::nova::address::encoded;

/// A list, and the way to the next page of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComparedList {
    /// The name of the list in the answer.
    pub(super) key: &'static str,
    /// The JSON pointer in an entry to the value of `marker`. `None`: the list takes an `offset` instead.
    pub(super) marker: Option<&'static str>,
}

impl ComparedList {
    /// The address of the page after these entries. `None` if the list cannot go on.
    fn after(self, path: &str, entries: &[Value]) -> Option<String> {
        let next = match self.marker {
            None => format!("offset={}", entries.len()),
            Some(place) => match entries.last()?.pointer(place)? {
                Value::String(text) => format!("marker={}", encoded(text)),
                other => format!("marker={other}"),
            },
        };
        Some(format!("{path}{}{next}", if path.contains('?') { '&' } else { '?' }))
    }

    /// The field that identifies an entry.
    fn name(self, entry: &Value) -> String {
        self.marker.and_then(|place| entry.pointer(place)).unwrap_or(entry).to_string()
    }
}

/// The entries of the pages so far.
struct ListedEntries {
    list: ComparedList,
    entries: Vec<Value>,
    names: BTreeSet<String>,
}

impl ListedEntries {
    fn new(list: ComparedList) -> Self {
        Self { list, entries: Vec::new(), names: BTreeSet::new() }
    }

    /// Appends the entries of a page. `false` if the page has no new entry: a server may ignore `marker`.
    fn append(&mut self, page: &mut Value) -> bool {
        let Some(Value::Array(page)) = page.get_mut(self.list.key).map(Value::take) else { return false };
        let before = self.entries.len();
        for entry in page {
            if self.names.insert(self.list.name(&entry)) {
                self.entries.push(entry);
            }
        }
        self.entries.len() > before
    }

    fn next(&self, path: &str) -> Option<String> {
        self.list.after(path, &self.entries)
    }

    /// The answer with the entries of all pages, and without the links between them.
    fn whole(self, mut answer: Value) -> Value {
        if let Some(fields) = answer.as_object_mut() {
            fields.retain(|key, _| !is_links(key));
            fields.insert(self.list.key.to_owned(), self.entries.into());
        }
        answer
    }
}

/// Whether Nova says that the list goes on. Lists with an offset never say so.
fn goes_on(answer: &Value) -> bool {
    let lists = answer.as_object().into_iter().flatten().filter(|(key, _)| is_links(key));
    lists.flat_map(|(_, links)| links.as_array().into_iter().flatten()).any(|link| link["rel"] == "next")
}

fn is_links(key: &str) -> bool {
    key == "links" || key.ends_with("_links")
}

impl NovaComparison {
    /// Compares all pages of a list. Returns Nova's list, if there is one.
    pub(super) async fn ask_list(
        &mut self,
        request: ComparedRequest,
        list: ComparedList,
    ) -> Result<Option<Value>, CommandFailure> {
        let Some((theirs, ours)) = self.both(&request).await? else { return Ok(None) };
        let theirs = self.rest_there(&request, list, theirs)?;
        let ours = self.rest_here(&request, list, ours).await;
        compare_answers(request.name, &theirs, &ours, &mut self.found);
        Ok(Some(theirs))
    }

    fn rest_there(
        &self,
        request: &ComparedRequest,
        list: ComparedList,
        mut page: Value,
    ) -> Result<Value, CommandFailure> {
        let (first, mut listed) = (page.clone(), ListedEntries::new(list));
        loop {
            let more = list.marker.is_none() || goes_on(&page);
            if !listed.append(&mut page) || !more {
                return Ok(listed.whole(first));
            }
            let Some(path) = listed.next(&request.path) else { return Ok(listed.whole(first)) };
            let (status, next) = self.nova.get(request.service, &path, &request.version)?;
            if status != 200 {
                let reason = format!("Nova answers {status} to the next page of a list: {path}");
                return Err(CommandFailure::Usage(reason));
            }
            page = next;
        }
    }

    async fn rest_here(&self, request: &ComparedRequest, list: ComparedList, mut page: Value) -> Value {
        let (first, mut listed) = (page.clone(), ListedEntries::new(list));
        while listed.append(&mut page) {
            let Some(path) = listed.next(&request.path) else { break };
            match self.here(request, &path).await {
                (200, next) => page = next,
                _ => break,
            }
        }
        listed.whole(first)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pages_follow_the_last_entry_or_the_number_of_entries() {
        let mut flavors = ListedEntries::new(ComparedList { key: "flavors", marker: Some("/id") });
        assert!(flavors.append(&mut json!({"flavors": [{"id": "a"}, {"id": "b/c"}]})));
        assert_eq!(flavors.next("/flavors?x=1").as_deref(), Some("/flavors?x=1&marker=b%2Fc"));
        assert!(!flavors.append(&mut json!({"flavors": [{"id": "b/c"}]})), "the list must end here");
        let mut groups = ListedEntries::new(ComparedList { key: "server_groups", marker: None });
        assert!(groups.append(&mut json!({"server_groups": [{"id": 1}, {"id": 2}]})));
        assert_eq!(groups.next("/g").as_deref(), Some("/g?offset=2"));
        assert!(goes_on(&json!({"flavors_links": [{"rel": "next"}]})) && !goes_on(&json!({"flavors": []})));
        let whole = flavors.whole(json!({"flavors": [], "flavors_links": []}));
        assert_eq!(whole, json!({"flavors": [{"id": "a"}, {"id": "b/c"}]}));
    }
}
