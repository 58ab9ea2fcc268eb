//! Changes of metadata and tags, one after the other.

use super::*;

/// A server's labels after these changes. Each change is one command. The error is the first refusal.
fn labels_after(changes: Vec<InstanceChange>) -> Result<(SortedPairs, Vec<String>), Reject> {
    let mut given = active();
    for change in changes {
        let command = Request::Change { changes: vec![change], asker: USER };
        given.when(command.clone())?;
        given = given.and(command);
    }
    let request = given.0.alive().unwrap().request.clone();
    Ok((request.metadata, request.tags))
}

#[test]
fn changes_of_different_labels_keep_each_other_up_to_the_limit() {
    let set = |key: &str, limit| {
        InstanceChange::Metadata(MetadataChange::Set { pairs: vec![(key.into(), "1".into())], limit: Some(limit) })
    };
    let add = |tag: &str| InstanceChange::Tags(TagChange::Add { tag: tag.into(), limit: 2 });
    let clear = || [replaced(vec![]), InstanceChange::Tags(TagChange::Replace(vec![]))];
    let after = |changes: Vec<InstanceChange>| labels_after(clear().into_iter().chain(changes).collect());
    let (metadata, tags) = after(vec![set("b", 9), add("y"), set("a", 9), add("x"), add("y")]).unwrap();
    assert_eq!(metadata, vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "1".to_owned())]);
    assert_eq!(tags, ["y", "x"]);
    let (metadata, tags) = after(vec![
        set("a", 9),
        add("x"),
        InstanceChange::Metadata(MetadataChange::Remove { key: "a".into() }),
        InstanceChange::Tags(TagChange::Remove("x".into())),
    ])
    .unwrap();
    assert!(metadata.is_empty() && tags.is_empty());
    assert_eq!(after(vec![set("a", 1), set("b", 1)]), Err(Reject::TooMuchMetadata { limit: 1 }));
    assert_eq!(after(vec![add("x"), add("y"), add("z")]), Err(Reject::TooManyTags { limit: 2 }));
    let gone = InstanceChange::Metadata(MetadataChange::Remove { key: "a".into() });
    assert_eq!(after(vec![gone]), Err(Reject::NoSuchMetadata));
    let gone = InstanceChange::Tags(TagChange::Remove("x".into()));
    assert_eq!(after(vec![gone]), Err(Reject::NoSuchTag { tag: "x".into() }));
}
