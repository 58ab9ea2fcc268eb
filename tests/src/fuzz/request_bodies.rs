//! Random JSON from a schema, sometimes invalid.

use serde_json::{Map, Value, json};

use super::Random;

/// From this depth on, the schema is ignored.
const DEPTH: usize = 8;

/// Meaningful texts: ids of existing resources, and typical problem strings.
#[derive(Debug, Default)]
pub struct Words(pub Vec<String>);

impl Words {
    pub fn any(&self, random: &mut Random) -> String {
        const ODD: [&str; 26] = [
            "",
            " ",
            "a",
            "0",
            "-1",
            "1",
            "2.1",
            "true",
            "none",
            "null",
            "default",
            "..",
            "/",
            "%",
            "%00",
            "\u{0}",
            "\n",
            "ß",
            "🦀",
            "10.0.0.1",
            "::1",
            "2026-02-30T25:61:61Z",
            "2026-01-31T12:00:00Z",
            "b64=",
            "aGk=",
            "in:a,b",
        ];
        match random.below(10) {
            0..4 if !self.0.is_empty() => self.0[random.below(self.0.len())].clone(),
            4 => "x".repeat([1, 63, 64, 255, 256, 70_000][random.below(6)]),
            5 => random.number().to_string(),
            6 => format!("{:032x}", u128::from(random.number()) << 64 | u128::from(random.number())),
            _ => random.pick(&ODD).to_owned(),
        }
    }
}

/// Any value.
pub fn anything(random: &mut Random, words: &Words, depth: usize) -> Value {
    match random.below(if depth < 3 { 10 } else { 7 }) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!([0, -1, 1, 65_536, i64::MAX, i64::MIN, 4_294_967_296][random.below(7)]),
        3 => [json!(u64::MAX), json!(0.5), json!(-0.0), json!(1e308), json!(1e-308)][random.below(5)].clone(),
        4..7 => json!(words.any(random)),
        7 => Value::Array((0..random.below(3)).map(|_| anything(random, words, depth + 1)).collect()),
        8 => (0..random.below(3)).map(|_| (words.any(random), anything(random, words, depth + 1))).collect(),
        _ => (0..random.below(200)).fold(json!([]), |inner, _| json!([inner])),
    }
}

/// A value. In most cases the schema accepts the value. Unknown keywords of the schema are ignored.
pub fn of(schema: &Value, random: &mut Random, words: &Words, depth: usize) -> Value {
    let Some(schema) = schema.as_object().filter(|schema| !schema.is_empty() && depth < DEPTH) else {
        return anything(random, words, depth);
    };
    if random.chance(2) {
        return anything(random, words, depth);
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    for (key, list) in [("enum", true), ("oneOf", false), ("anyOf", false), ("allOf", false)] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array).filter(|choices| !choices.is_empty()) {
            let choice = &choices[random.below(choices.len())];
            return if list { choice.clone() } else { of(choice, random, words, depth) };
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) if !kinds.is_empty() => kinds[random.below(kinds.len())].as_str().unwrap_or_default(),
        _ if schema.contains_key("properties") => "object",
        _ => return anything(random, words, depth),
    };
    match kind {
        "null" => Value::Null,
        "boolean" => json!(random.chance(50)),
        "integer" | "number" => number(schema, random),
        "string" => text(schema, random, words),
        "array" => {
            let least = count(schema, "minItems").unwrap_or(0);
            let items = schema.get("items").cloned().unwrap_or_default();
            Value::Array((0..least + random.below(3)).map(|_| of(&items, random, words, depth + 1)).collect())
        }
        "object" => object(schema, random, words, depth),
        _ => anything(random, words, depth),
    }
}

fn object(schema: &Map<String, Value>, random: &mut Random, words: &Words, depth: usize) -> Value {
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut map = Map::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if random.chance(if required.contains(&name.as_str()) { 98 } else { 30 }) {
            map.insert(name.clone(), of(property, random, words, depth + 1));
        }
    }
    let free = ["additionalProperties", "patternProperties"].iter().find_map(|key| schema.get(*key));
    if let Some(free) = free.filter(|free| free.is_object()) {
        let inner =
            free.as_object().and_then(|free| free.values().find(|value| value.is_object())).unwrap_or(free).clone();
        for _ in 0..random.below(3) {
            map.insert(words.any(random), of(&inner, random, words, depth + 1));
        }
    }
    Value::Object(map)
}

fn count(schema: &Map<String, Value>, key: &str) -> Option<usize> {
    schema.get(key).and_then(Value::as_u64).and_then(|count| usize::try_from(count.min(300)).ok())
}

fn number(schema: &Map<String, Value>, random: &mut Random) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64);
    let (least, most) = (bound("minimum").unwrap_or(-2), bound("maximum").unwrap_or(1 << 40));
    let between = least.saturating_add(i64::try_from(random.below(10)).unwrap()).min(most);
    json!([least, most, between, least.saturating_sub(1), most.saturating_add(1)][random.below(5)])
}

fn text(schema: &Map<String, Value>, random: &mut Random, words: &Words) -> Value {
    let word = words.any(random);
    let (least, most) = (count(schema, "minLength").unwrap_or(0), count(schema, "maxLength"));
    if random.chance(20) {
        return json!(word);
    }
    let mut word: String = word.chars().take(most.unwrap_or(80)).collect();
    while word.chars().count() < least {
        word.push('a');
    }
    json!(word)
}

/// Changes the value in one place.
pub fn spoil(value: &mut Value, random: &mut Random, words: &Words) {
    let inner = match value {
        Value::Object(map) if !map.is_empty() && random.chance(80) => {
            let at = random.below(map.len());
            map.values_mut().nth(at)
        }
        Value::Array(items) if !items.is_empty() && random.chance(80) => {
            let at = random.below(items.len());
            items.get_mut(at)
        }
        _ => None,
    };
    match inner {
        Some(inner) => spoil(inner, random, words),
        None => *value = anything(random, words, 0),
    }
}
