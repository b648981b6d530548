//! Known names of columns.

/// Names of columns, the preferred ones first. Upper and lower case, spaces, `_` and `-` make no difference.
pub(in crate::data) const WORD: &[&str] = &[
    "word",
    "words",
    "token",
    "tokens",
    "form",
    "surface",
    "tokenizedtext",
];
pub(super) const TEXT: &[&str] = &[
    "text",
    "sentence",
    "sentences",
    "content",
    "sentencetext",
    "rawtext",
    "tweet",
    "utterance",
];
pub(in crate::data) const TAGS: &[&str] = &[
    "nertags",
    "nertag",
    "ner",
    "netags",
    "netag",
    "iobtags",
    "iobtag",
    "iob",
    "iob2",
    "biotags",
    "biotag",
    "bio",
    "entitytags",
    "entitytag",
    "nerlabels",
    "nerlabel",
    "namedentity",
    "namedentities",
    "wordlabels",
    "tags",
    "tag",
    "labels",
    "label",
    "entities",
    "entity",
    "spans",
    "annotations",
    "annotation",
    "slotlabels",
    "slots",
];
pub(in crate::data) const SENTENCE: &[&str] = &[
    "sentence#",
    "sentenceid",
    "sentenceidx",
    "sentenceindex",
    "sentencenumber",
    "sentencenum",
    "sentenceno",
    "sentid",
    "sentidx",
    "sentno",
    "sentnum",
    "sentnumber",
    "sid",
    "sent",
    "sent#",
    "sentence",
    "sentences",
    "id",
];
pub(super) const POS: &[&str] = &["pos", "postag", "postags", "upos", "xpos", "partofspeech"];
pub(super) const DOCUMENT: &[&str] = &[
    "doc",
    "docid",
    "document",
    "documentid",
    "docname",
    "documentname",
    "file",
    "filename",
    "article",
    "articleid",
    "pmid",
];

/// The name of a column in lower case and without separators.
pub(in crate::data) fn normalised(name: &str) -> String {
    let kept = name
        .trim()
        .chars()
        .filter(|c| !matches!(c, ' ' | '_' | '-' | ':' | '.'));
    kept.collect::<String>().to_lowercase()
}
