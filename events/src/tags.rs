//! Tags in events: an event records only the added and removed tags. If it recorded all tags, a request of a hundred
//! bytes would write every tag of a resource into the log again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Settings that include tags.
pub trait SettingsWithTags: Clone {
    fn tags_mut(&mut self) -> &mut Vec<String>;
}

/// The change of the tags by a change of settings. The recorded settings themselves have no tags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TagsChange {
    /// All tags. Older events recorded changes in this way.
    All(Vec<String>),
    /// Both lists are sorted. No tag of `added` was there before, and every tag of `removed` was.
    Difference { added: Vec<String>, removed: Vec<String> },
}

impl TagsChange {
    /// Takes the tags out of the new settings. Returns both the settings and the difference from the old tags.
    pub fn between<S: SettingsWithTags>(old: &[String], mut new: S) -> (S, Self) {
        let tags = std::mem::take(new.tags_mut());
        let (before, after): (BTreeSet<&String>, BTreeSet<&String>) = (old.iter().collect(), tags.iter().collect());
        let those = |these: &BTreeSet<&String>, without: &BTreeSet<&String>| -> Vec<String> {
            these.difference(without).map(|tag| (*tag).clone()).collect()
        };
        let (added, removed) = (those(&after, &before), those(&before, &after));
        (new, Self::Difference { added, removed })
    }

    /// Like [`between`](Self::between), for settings that were recorded with all of their tags.
    pub fn all<S: SettingsWithTags>(mut recorded: S) -> (S, Self) {
        let tags = std::mem::take(recorded.tags_mut());
        (recorded, Self::All(tags))
    }

    /// Replaces `now` by the recorded settings, and applies the change to the tags of `now`.
    pub fn replace<S: SettingsWithTags>(&self, now: &mut S, recorded: &S) {
        let old = std::mem::take(now.tags_mut());
        now.clone_from(recorded);
        *now.tags_mut() = self.applied(old);
    }

    fn applied(&self, old: Vec<String>) -> Vec<String> {
        match self {
            Self::All(tags) => tags.clone(),
            Self::Difference { added, removed } => {
                let mut tags: BTreeSet<String> = old.into_iter().filter(|tag| !removed.contains(tag)).collect();
                tags.extend(added.iter().cloned());
                tags.into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Settings {
        name: &'static str,
        tags: Vec<String>,
    }

    impl SettingsWithTags for Settings {
        fn tags_mut(&mut self) -> &mut Vec<String> {
            &mut self.tags
        }
    }

    fn tags(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_difference_leads_from_the_old_tags_to_the_new() {
        for (old, new) in [("a b c", "b c d"), ("", "x"), ("x", ""), ("a", "a")] {
            let wanted = Settings { name: "new", tags: tags(new) };
            let (recorded, change) = TagsChange::between(&tags(old), wanted.clone());
            assert_eq!(recorded, Settings { name: "new", tags: vec![] });
            let mut now = Settings { name: "old", tags: tags(old) };
            change.replace(&mut now, &recorded);
            assert_eq!(now, wanted, "{old} to {new}");
        }
        let (_, change) = TagsChange::between(&tags("a b c"), Settings { name: "", tags: tags("b c d") });
        assert_eq!(change, TagsChange::Difference { added: tags("d"), removed: tags("a") });
    }

    #[test]
    fn settings_recorded_with_all_tags_keep_them() {
        let (recorded, change) = TagsChange::all(Settings { name: "new", tags: tags("b d") });
        let mut now = Settings { name: "old", tags: tags("a b") };
        change.replace(&mut now, &recorded);
        assert_eq!(now, Settings { name: "new", tags: tags("b d") });
    }
}
