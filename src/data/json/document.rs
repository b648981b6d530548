//! Documents of several sentences of words in one JSON record.
//!
//! DyGIE++ and SciERC have `sentences` (lists of words) and `ner` with a list of [first word, last word, type] for each
//! sentence, in which words are counted through the document. The format of biaffine-ner is the same with `ners`, and counts
//! the words of the sentence. DocRED has `sents` and `vertexSet`, whose mentions have `sent_id` and `pos`.

use serde_json::{Map, Value, json};

use super::values::canonical;

/// The sentences of a document as records with `tokens`; `None` for a record that is no such document.
pub(super) fn sentences(object: &Map<String, Value>) -> Option<Result<Vec<Value>, String>> {
    let lists = object
        .get("sentences")
        .or_else(|| object.get("sents"))?
        .as_array()?;
    let lengths: Option<Vec<usize>> = lists
        .iter()
        .map(|list| Some(list.as_array()?.len()))
        .collect();
    let lengths = lengths.filter(|_| {
        lists
            .iter()
            .flat_map(Value::as_array)
            .flatten()
            .all(Value::is_string)
    })?;
    let mut records: Vec<Map<String, Value>> = lists
        .iter()
        .map(|words| Map::from_iter([("tokens".to_string(), words.clone())]))
        .collect();
    for (key, value) in object {
        if key == "sentences" || key == "sents" || value.is_null() {
            continue;
        }
        let name = canonical(key);
        if name == "vertexset" {
            if let Err(problem) = mentions(value, &mut records) {
                return Some(Err(problem));
            }
            continue;
        }
        if matches!(
            name.as_str(),
            "clusters" | "relations" | "events" | "sentencestart" | "predictedner"
        ) {
            continue;
        }
        let Some(list) = value.as_array() else {
            // The name of the document and the like hold for every sentence; annotations of another form are reported.
            for record in &mut records {
                record.insert(key.clone(), value.clone());
            }
            continue;
        };
        // The lists of DocRED are relations and evidence.
        if !list.iter().all(Value::is_array) || object.contains_key("vertexSet") {
            continue;
        }
        if list.len() != lengths.len() {
            return Some(Err(format!(
                "`{key}` has {} lists for {} sentences; give one for each sentence",
                list.len(),
                lengths.len()
            )));
        }
        let starts = starts(list, &lengths, name == "ners");
        for ((record, value), start) in records.iter_mut().zip(list).zip(starts) {
            record.insert(key.clone(), moved(value, start));
        }
    }
    Some(Ok(records.into_iter().map(Value::Object).collect()))
}

/// What to subtract from the spans of each sentence. Spans count the words of the document, unless only counting the words
/// of the sentence gives spans in range. `by_sentence` is the other way round.
fn starts(lists: &[Value], lengths: &[usize], by_sentence: bool) -> Vec<usize> {
    let mut starts = vec![0];
    for length in lengths {
        starts.push(starts[starts.len() - 1] + length);
    }
    let spans = |index: usize| {
        let list = lists[index]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        list.iter().filter_map(|span| {
            Some((
                span.get(0)?.as_u64()? as usize,
                span.get(1)?.as_u64()? as usize,
            ))
        })
    };
    let misfits = |by_sentence: bool| {
        let count = |index: usize| {
            let start = if by_sentence { 0 } else { starts[index] };
            let end = start + lengths[index];
            spans(index)
                .filter(|(from, to)| *from < start || *to > end)
                .count()
        };
        (0..lists.len()).map(count).sum::<usize>()
    };
    let by_sentence = if by_sentence {
        misfits(true) == 0 || misfits(false) > 0
    } else {
        misfits(false) > 0 && misfits(true) == 0
    };
    if by_sentence {
        starts.fill(0);
    }
    starts
}

/// The spans of a sentence with their words counted from its start. What is not a span stays as it is.
fn moved(value: &Value, start: usize) -> Value {
    let move_one = |span: &Value| {
        let list = span.as_array().filter(|list| list.len() >= 3);
        let ends = list.and_then(|list| Some((list[0].as_i64()?, list[1].as_i64()?)));
        match (list, ends) {
            (Some(list), Some((from, to))) => {
                let mut list = list.clone();
                list[0] = json!(from.saturating_sub(start as i64));
                list[1] = json!(to.saturating_sub(start as i64));
                Value::Array(list)
            }
            _ => span.clone(),
        }
    };
    match value {
        Value::Array(spans) => spans.iter().map(move_one).collect(),
        other => other.clone(),
    }
}

/// Adds the mentions of DocRED's `vertexSet` to their sentences. A mention may be in several clusters.
fn mentions(value: &Value, records: &mut [Map<String, Value>]) -> Result<(), String> {
    for record in records.iter_mut() {
        record.insert("entities".to_string(), json!([]));
    }
    let clusters = value.as_array().ok_or("`vertexSet` must be a list")?;
    for mention in clusters.iter().flat_map(Value::as_array).flatten() {
        let sentence = mention.get("sent_id").and_then(Value::as_u64);
        let entities = sentence
            .and_then(|index| records.get_mut(usize::try_from(index).ok()?))
            .and_then(|record| record.get_mut("entities")?.as_array_mut());
        let (Some(entities), Some(span), Some(label)) =
            (entities, mention.get("pos"), mention.get("type"))
        else {
            return Err(format!(
                "the mention {mention} of `vertexSet` has no valid `sent_id`, `pos` and `type`"
            ));
        };
        let entity = json!({"span": span, "type": label});
        if !entities.contains(&entity) {
            entities.push(entity);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: Value) -> Result<Vec<Value>, String> {
        sentences(value.as_object().unwrap()).unwrap()
    }

    #[test]
    fn documents_become_sentences() {
        let words = json!([["a", "b"], ["c", "d"]]);
        for (key, second) in [
            ("ner", json!([[2, 3, "A"]])),
            ("ner", json!([[0, 1, "A"]])),
            ("ners", json!([[0, 1, "A"]])),
        ] {
            let document =
                json!({"doc_key": "d", "sentences": words, key: [[], second], "clusters": []});
            let found = of(document).unwrap();
            assert_eq!(
                found[1],
                json!({"doc_key": "d", "tokens": ["c", "d"], key: [[0, 1, "A"]]})
            );
        }
        let tags = of(json!({"sentences": words, "tags": [["O", "O"], ["B-A", "O"]]})).unwrap();
        assert_eq!(tags[1]["tags"], json!(["B-A", "O"]));
        assert!(of(json!({"sentences": words, "ner": [[]]})).is_err());
        assert!(sentences(json!({"sentences": [{"tokens": []}]}).as_object().unwrap()).is_none());
    }

    #[test]
    fn docred_mentions_go_to_their_sentences() {
        let mention = json!({"name": "c", "pos": [0, 1], "sent_id": 1, "type": "LOC"});
        let found = of(
            json!({"title": "t", "sents": [["a"], ["c"]], "vertexSet": [[mention], [mention]], "labels": []}),
        );
        assert_eq!(
            found.unwrap()[1]["entities"],
            json!([{"span": [0, 1], "type": "LOC"}])
        );
        let bad = json!({"sents": [["a"]], "vertexSet": [[{"name": "c", "pos": [0, 1], "sent_id": 9, "type": "LOC"}]]});
        assert!(of(bad).is_err());
    }
}
