//! Abbreviations and words that decide whether a full stop ends a sentence.

use std::collections::HashSet;
use std::sync::LazyLock;

/// How likely a full stop after a word ends the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopAfter {
    /// Nearly always: an ordinary word.
    Ends,
    /// Only if no number follows, as in `No. 5`.
    EndsUnlessNumber,
    /// Only if the next word is one that often starts a sentence, as in `in the U.S. The`.
    EndsBeforeStarter,
    /// Never: a title such as `Dr.`, or `e.g.`.
    Continues,
}

/// Titles, after which a sentence goes on. Compared with their capital, as some are words without it.
const TITLES: &str = "
    Mr Mrs Ms Mx Dr Prof Profs Messrs Mme Mmes Mlle Mlles Mons Gen Col Sgt Capt Cpt Lt Cmdr Adm Maj Cpl Pvt Rev Revd Hon Sen
    Rep Gov Pres Supt Msgr Mgr Fr Sr Sra Srta Dra Dña Sig Dott Ing Arch Avv Dhr Mevr Mw Drs Ir Ste Mt Ft Hr Hrn Dipl Ud Uds Vd
    Excmo Ilmo Exmo Ilma Im Ul Ks Inż Mag Wm Chas Geo Jos Thos";

/// Abbreviations after which a sentence goes on, in lower case: words that introduce what follows.
const CONTINUES: &str = "
    dr prof vs viz cf e.g i.e eg ie resp incl excl approx ca c.f esp
    z.b d.h u.u i.d.r s.o s.u bzw ggf evtl sog vgl einschl inkl exkl zzgl abzgl bspw insb betr gem lt dipl.-ing
    p.ex c.-à-d càd env p.ej aprox
    bijv d.w.z m.b.t t.a.v i.p.v t.ex bl.a d.v.s dvs s.k f.eks t.o.m fr.o.m
    т.е т.к т.н напр см ср ул им проф акад доц
    np tzw tzn ul tj např mj př napr tzv
    डॉ श्री प्रो";

/// Abbreviations that are followed by a number, and are words or sentence ends otherwise.
const BEFORE_NUMBER: &str = "
    no nos nr nrs num art arts par pars para paras sec secs sect ch chap chs vol vols bd bde ex app appx pt pts
    p pp pg s f ff fol n nn l ll v vv ver op lot cap tit lib abs abb abschn kap rn rz ziff z tz § n.º nº n° č čís ч п пп т
    fig figs eq eqs eqn ref refs tab tabs tbl min max pág págs núm рис табл стр гл čl
    jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun
    jän mrz okt dez janv févr avr juil déc ene abr ago dic genn febbr magg giu lug sett ott";

/// Abbreviations that may stand at the end of a sentence, or within it.
const BEFORE_STARTER: &str = "
    etc inc ltd llc plc corp co cos bros gmbh ag jr snr jnr esq al ed eds edn trans repr univ dept dist div assn assoc intl
    natl govt est ave blvd rd str hwy sq bldg fl apt tel ext mio mrd mill jh jhd jhs usw usf uvm u.a u.ä o.ä o.g u.v.m s.a
    a.m p.m a.d b.c b.c.e c.e ph.d m.d b.a m.a b.sc m.sc d.c u.s u.k u.n e.u st sp spp ssp subsp var cv gen.nov
    ecc enz o.a.m etw cie sté s.a.r.l s.p.a s.r.l ltda cía hno hnos
    г гг в вв руб коп тыс млн млрд др пр т.д т.п н.э обл р-н д кв
    itd itp m.in godz zob atd apod aj a.s s.r.o osv m.m o.s.v m.fl";

/// Words that often start a sentence and are rarely part of a name. Compared with their capital.
const STARTERS: &str = "
    The A An This That These Those There Here It Its He She They We You I His Her Their Our My Your But And So If When While
    Where What Which Who Why How As By For From With Without After Before However Although Though Because Since Then Thus
    Therefore Moreover Furthermore Meanwhile To Not No Yes Some Many Most Both Each Every All One Another According During In
    On At Of Is Are Was Were Has Have Do Does Did Can Will Would Could Should Let Now Today Also Even Only Just Such
    Der Die Das Dem Den Des Ein Eine Einer Einem Einen Er Sie Es Wir Ich Ihr Im Am Bei Beim Mit Nach Und Aber Auch Als Wenn
    Dies Diese Dieser Dieses Diesem Für Von Vom Zu Zum Zur Auf Aus Seit Durch Ohne Doch Nur Noch Nun Dann Dort Hier Dabei Damit
    Daher Dazu Sein Seine Ihre Man Nicht Was Wer Wie Wo
    Il Elle Ils Elles On Nous Vous Ce Cette Ces Cet Dans En Et Mais Pour Par Sur Au Aux Avec Sans Les Un Une Son Sa Ses Leur
    Qui Que Où Quand Comme Si Selon Après Avant Depuis
    Los Una Unos Unas En Y Pero Con Por Para Este Esta Esto Ese Esa Su Sus Se Lo Es Fue Según Cuando Como Donde También No
    Gli Uno Ma Per Questo Questa Nel Nella Con Dopo Quando Anche
    Os As Um Uma Em No Na Mas Com Ele Ela Foi Não
    Het Een Op Maar Hij Zij Ze Dit Deze Dat Met Voor Bij Ook Naar
    В На И Но Он Она Они Это Мы Я По С К За Для Из От У О При После Если Когда Как Что Не Так Также А
    Och Men Han Hon Det Den De På Med För
    W Na Do Po Nie To Jest Był Jednak
    V A Ale Byl Byla";

/// Names of months, in lower case; a number with a full stop before them is an ordinal.
const MONTHS: &str = "
    januar jänner februar feber märz april mai juni juli august september oktober november dezember
    jan feb mär apr jun jul aug sep sept okt nov dez
    januari februari maart mei augustus maj marts juuni kesäkuuta tammikuuta
    ledna února března dubna května června července srpna září října listopadu prosince
    ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık";

/// Words before an ordinal number, in lower case: `am 3. Oktober`, `der 2. Weltkrieg`.
const BEFORE_ORDINAL: &str = "
    am der die das dem den des im vom zum zur ins bis seit ab und oder ein eine einer einem einen eines bei beim
    seine seiner seinem ihre ihrer jeder jedes jeden jedem dieser dieses";

fn words(list: &'static str) -> HashSet<&'static str> {
    list.split_whitespace().collect()
}

/// How likely a full stop after this word ends the sentence. Numbers are not judged here.
pub(super) fn stop_after(word: &str) -> StopAfter {
    static TITLE: LazyLock<HashSet<&str>> = LazyLock::new(|| words(TITLES));
    static CONTINUING: LazyLock<HashSet<&str>> = LazyLock::new(|| words(CONTINUES));
    static NUMBERED: LazyLock<HashSet<&str>> = LazyLock::new(|| words(BEFORE_NUMBER));
    static STARTING: LazyLock<HashSet<&str>> = LazyLock::new(|| words(BEFORE_STARTER));
    let lower = word.to_lowercase();
    let lower = lower.as_str();
    if TITLE.contains(word) || CONTINUING.contains(lower) {
        return StopAfter::Continues;
    }
    let mut letters = word.chars();
    let is_one_letter = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    // An initial, unless a number follows: `p. 5`, `S. 12`. Both continue.
    if STARTING.contains(lower) || is_one_letter || is_acronym(word) {
        return StopAfter::EndsBeforeStarter;
    }
    if NUMBERED.contains(lower) {
        return StopAfter::EndsUnlessNumber;
    }
    if has_no_vowel(word) {
        return StopAfter::EndsBeforeStarter;
    }
    StopAfter::Ends
}

/// Letters with full stops between them, such as `U.S` or `m.w.N`; the last full stop is not part of `word`.
fn is_acronym(word: &str) -> bool {
    let is_part = |part: &str| {
        (1..=2).contains(&part.chars().count()) && part.chars().all(char::is_alphabetic)
    };
    word.contains('.') && word.split('.').all(is_part)
}

/// Latin letters without a vowel, such as `Bldg` or `pg`: an abbreviation that is not in the list. Words in capitals are
/// acronyms, which are written without a full stop.
fn has_no_vowel(word: &str) -> bool {
    // Units of measurement end sentences like other words.
    const UNITS: &str =
        " kg mg km cm mm ml dl nm kb mb gb tb hz khz mhz ghz kw mw kv kcal rpm bpm ";
    if UNITS.contains(&format!(" {} ", word.to_lowercase())) {
        return false;
    }
    let count = word.chars().count();
    let starts_upper = word.starts_with(|first: char| first.is_ascii_uppercase());
    (2..=4).contains(&count)
        && (starts_upper || count <= 3)
        && word.bytes().all(|byte| byte.is_ascii_alphabetic())
        && word.bytes().skip(1).any(|byte| byte.is_ascii_lowercase())
        && !word.bytes().any(|byte| b"aeiouyAEIOUY".contains(&byte))
        && word.bytes().any(|byte| !b"hmrstpHMRSTP".contains(&byte))
}

/// Whether a word with a capital often starts a sentence.
pub(super) fn is_starter(word: &str) -> bool {
    static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| words(STARTERS));
    SET.contains(word)
}

/// Whether a number before a full stop is an ordinal, judged by the words before and after it.
pub(super) fn is_ordinal(before: &str, after: &str) -> bool {
    static MONTH: LazyLock<HashSet<&str>> = LazyLock::new(|| words(MONTHS));
    static BEFORE: LazyLock<HashSet<&str>> = LazyLock::new(|| words(BEFORE_ORDINAL));
    MONTH.contains(after.to_lowercase().as_str()) || BEFORE.contains(before.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged() {
        for (word, expected) in [
            ("Dr", StopAfter::Continues),
            ("e.g", StopAfter::Continues),
            ("No", StopAfter::EndsUnlessNumber),
            ("U.S", StopAfter::EndsBeforeStarter),
            ("etc", StopAfter::EndsBeforeStarter),
            ("J", StopAfter::EndsBeforeStarter),
            ("د", StopAfter::EndsBeforeStarter),
            ("Bldg", StopAfter::EndsBeforeStarter),
            ("Hmm", StopAfter::Ends),
            ("kg", StopAfter::Ends),
            ("HTML", StopAfter::Ends),
            ("example.com", StopAfter::Ends),
            ("house", StopAfter::Ends),
            ("", StopAfter::Ends),
        ] {
            assert_eq!(stop_after(word), expected, "{word}");
        }
        assert!(is_starter("The") && !is_starter("the") && !is_starter("Smith"));
        assert!(is_ordinal("am", "Tag") && is_ordinal("", "Oktober") && !is_ordinal("May", "The"));
    }
}
