//! The success answers of operations: status, headers and the schema of the body, at each microversion.
//!
//! ```ignore
//! pub fn create() -> Answers {
//!     empty(201).until(1, 19).or(ok(PROVIDER.shape()).since(1, 20)).header("Location")
//! }
//! ```
//!
//! A line of a route table names such a function ([`Route::answers`](crate::route::Route::answers)). A schema allows
//! only the keys that it names, and the tests compare answers with it. So an answer with another key fails a test. Only
//! the OpenAPI document and tests build the schemas. [`faults`] has the bodies of refusals.

pub mod faults;

use crate::microversion::{HEADER, LEGACY_HEADER, Microversion};
use crate::schema::Schema;
use crate::service::Service;

/// A function that describes the success answers of an operation.
pub type AnswersFn = fn() -> Answers;

/// The success answers of an operation. An operation that always refuses has none.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    forms: Vec<AnswerForm>,
}

/// One form of a success answer, and the versions that have it.
#[derive(Debug, Clone)]
pub struct AnswerForm {
    pub status: u16,
    pub content: AnswerContent,
    headers: Vec<AnswerHeader>,
    pub since: Microversion,
    /// The last version that has the answer.
    pub until: Option<Microversion>,
}

/// A header that an answer has in addition to the headers of every answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerHeader {
    pub name: &'static str,
    /// Whether every such answer has it.
    pub always: bool,
    since: Microversion,
}

/// The body of a success answer.
#[derive(Debug, Clone)]
pub enum AnswerContent {
    Empty,
    Json(Schema),
    /// Another media type.
    Other(&'static str),
}

/// The headers of every answer of a service whose version is negotiated.
pub const fn common_headers(service: Service) -> &'static [&'static str] {
    const REQUEST: &str = "x-openstack-request-id";
    match service {
        Service::Compute => &[REQUEST, "x-compute-request-id", HEADER, LEGACY_HEADER, "Vary"],
        Service::Placement | Service::Volume => &[REQUEST, HEADER, "Vary"],
        Service::Identity => &[REQUEST, "Vary"],
        Service::Image | Service::Network | Service::Metadata | Service::Chronova => &[REQUEST],
    }
}

fn form(status: u16, content: AnswerContent) -> Answers {
    let (since, until) = (Microversion::NONE, None);
    Answers { forms: vec![AnswerForm { status, content, headers: Vec::new(), since, until }] }
}

/// A status with a JSON body.
pub fn json(status: u16, body: Schema) -> Answers {
    form(status, AnswerContent::Json(body))
}

/// 200 with a JSON body.
pub fn ok(body: Schema) -> Answers {
    json(200, body)
}

/// A status without a body.
pub fn empty(status: u16) -> Answers {
    form(status, AnswerContent::Empty)
}

/// 200 without a body.
pub fn done() -> Answers {
    empty(200)
}

/// 202 without a body.
pub fn accepted() -> Answers {
    empty(202)
}

/// 204 without a body.
pub fn no_content() -> Answers {
    empty(204)
}

/// A status with a body that is not JSON.
pub fn other(status: u16, media_type: &'static str) -> Answers {
    form(status, AnswerContent::Other(media_type))
}

/// No success: the operation exists, but always refuses.
pub fn refused() -> Answers {
    Answers::default()
}

impl Answers {
    /// The first version that has these answers.
    pub fn since(mut self, major: u16, minor: u16) -> Self {
        self.forms.iter_mut().for_each(|form| form.since = Microversion::new(major, minor));
        self
    }

    /// The last version that has these answers.
    pub fn until(mut self, major: u16, minor: u16) -> Self {
        self.forms.iter_mut().for_each(|form| form.until = Some(Microversion::new(major, minor)));
        self
    }

    /// These answers have a header.
    pub fn header(self, name: &'static str) -> Self {
        self.with_header(AnswerHeader { name, always: true, since: Microversion::NONE })
    }

    /// These answers have a header from this version on.
    pub fn header_from(self, name: &'static str, since: Microversion) -> Self {
        self.with_header(AnswerHeader { name, always: true, since })
    }

    /// Some of these answers have a header.
    pub fn header_sometimes(self, name: &'static str) -> Self {
        self.with_header(AnswerHeader { name, always: false, since: Microversion::NONE })
    }

    fn with_header(mut self, header: AnswerHeader) -> Self {
        self.forms.iter_mut().for_each(|form| form.headers.push(header));
        self
    }

    /// These answers and others.
    pub fn or(mut self, others: Self) -> Self {
        self.forms.extend(others.forms);
        self
    }

    /// The answers of a version.
    pub fn at(&self, version: Microversion) -> impl Iterator<Item = &AnswerForm> {
        self.forms.iter().filter(move |form| version.within(form.since, form.until))
    }

    /// All answers of all versions.
    pub fn forms(&self) -> &[AnswerForm] {
        &self.forms
    }
}

impl AnswerForm {
    /// The headers that the answer has at a version, in addition to the headers of every answer.
    pub fn headers(&self, version: Microversion) -> impl Iterator<Item = &AnswerHeader> {
        self.headers.iter().filter(move |header| version.at_least(header.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::microversion::v;
    use crate::schema::object;

    fn statuses(answers: &Answers, minor: u16) -> Vec<u16> {
        answers.at(v(2, minor)).map(|form| form.status).collect()
    }

    #[test]
    fn answers_depend_on_the_version() {
        let answers = empty(201).until(2, 4).or(ok(object([])).since(2, 5)).header("Location").or(accepted());
        assert_eq!(statuses(&answers, 4), [201, 202]);
        assert_eq!(statuses(&answers, 5), [200, 202]);
        let headers = |form: &AnswerForm| form.headers(v(2, 5)).map(|header| header.name).collect::<Vec<_>>();
        assert_eq!(answers.at(v(2, 5)).map(headers).collect::<Vec<_>>(), [vec!["Location"], vec![]]);
        let dated = done().header_from("Last-Modified", v(2, 6));
        assert!(dated.forms().iter().all(|form| form.headers(v(2, 5)).next().is_none()));
        assert!(dated.forms().iter().all(|form| form.headers(v(2, 6)).next().is_some()));
    }
}
