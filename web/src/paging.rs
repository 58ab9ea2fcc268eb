//! Pages of the image and volume listings: `limit`, `marker`, and whether there is a next page.
//!
//! No page is larger than the service's maximum. With `limit=0` the page is empty. An unknown marker is 400. There is a
//! next page only if items follow. Compute has Nova's rule for the next page, in `compute::paging`.

use crate::fault::Fault;
use crate::query::Query;

/// The requested part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: usize,
    /// The id of the last item of the previous page.
    pub marker: Option<String>,
    /// Whether the client sent a limit. If not, the image service uses a smaller page.
    pub limited: bool,
}

impl PageRequest {
    /// Reads `limit` and `marker`. `max_limit` is the size of the largest page, and of a page without `limit`.
    pub fn of(query: &Query, max_limit: u64) -> Result<Self, Fault> {
        let wanted = query
            .last("limit")
            .map(|text| {
                text.parse::<u64>()
                    .map_err(|_| Fault::bad_request("limit must be an integer greater than or equal to 0."))
            })
            .transpose()?;
        let limit = wanted.unwrap_or(max_limit).min(max_limit);
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            marker: query.last("marker").filter(|marker| !marker.is_empty()).map(str::to_owned),
            limited: wanted.is_some(),
        })
    }

    /// The page of `items` (sorted), and whether items follow it.
    pub fn cut<T>(&self, mut items: Vec<T>, id: impl Fn(&T) -> String) -> Result<(Vec<T>, bool), Fault> {
        if let Some(marker) = &self.marker {
            let at = items
                .iter()
                .position(|item| id(item) == *marker)
                .ok_or_else(|| Fault::bad_request(format!("marker [{marker}] not found")))?;
            items.drain(..=at);
        }
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        Ok((items, more))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn page(text: &str) -> PageRequest {
        PageRequest::of(&Query::parse(text).unwrap(), 3).unwrap()
    }

    #[test]
    fn cuts() {
        let items = || vec!["a", "b", "c", "d"];
        let cut = |text: &str| page(text).cut(items(), |item| (*item).to_owned()).unwrap();
        assert_eq!(cut(""), (vec!["a", "b", "c"], true), "the operator's limit has no effect");
        assert_eq!(cut("limit=2&marker=b"), (vec!["c", "d"], false));
        assert_eq!(cut("limit=1&marker=b"), (vec!["c"], true));
        assert_eq!(cut("limit=0"), (vec![], true));
        assert_eq!(page("marker=x").cut(items(), |item| (*item).to_owned()).unwrap_err().status, 400);
        assert!(PageRequest::of(&Query::parse("limit=-1").unwrap(), 3).is_err());
    }
}
