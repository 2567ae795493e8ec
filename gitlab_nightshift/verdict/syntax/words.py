"""How strong an assertion is, by its words: one table for the libraries of all languages."""

import re

EXACT, CLOSE, PARTIAL, TYPE, TRUTHY, PRESENT, NOTHING = 6, 5, 4, 3, 2, 1, 0
"""Ranks, the strongest first: the value itself; nearly; a part, a size or a bound; its type; true,
different or called; there at all; nothing."""

_TABLE = {
    EXACT: "equal equals equalto eq eql eqv be same sameas sameinstance sameinstanceas deepequal"
    " deepequals strictequal deepstrictequal strictequals identical identicalto exactly equalvalues"
    " containsexactly containsexactlyinanyorder containsexactlyelementsof containexactly"
    " containexactlyinanyorder containsonly matcharray countequal elementsmatch itemsequal setequal"
    " listequal dictequal tupleequal sequenceequal multilineequal areequal aresame"
    " equaltocomparingfieldbyfield"
    " equalbycomparingto comparesequalto null none nil empty undefined nan zero jsoneq yamleq"
    " exactjson"
    " calledwith calledoncewith calledonce calledonceexactly calledoncewithexactly"
    " calledwithexactly"
    " beencalledwith beencalledtimes beencalledoncewith beencalledonce beencalledexactlyoncewith"
    " lastcalledwith nthcalledwith beenlastcalledwith beennthcalledwith callcount awaitedoncewith"
    " awaitedwith awaitedonce hascalls equivalent equivalentto arrayequals linesmatch"
    " iterableequals statuscode status errorsame numberofcalls received receivedwith calls"
    " arrayequal"
    " inlinesnapshot matchinlinesnapshot isomorphic deeplyequal deepequalto theequalto is sorted"
    " returnedwith texttobe redirectto erroris enumequal themselves valuesof exactlyinorder"
    " statusok ok200 isok iscreated isnotfound isbadrequest queryset querysetequal beequal"
    " emptydomelement attributes displayvalue accessiblename formvalues"
    " numberofqueries numqueries eqls deepeqls eventually sentexactly contentequal htmlequal"
    " xmlequal formerror haslines".lower(),
    CLOSE: "almostequal closeto approx approximately indelta inepsilon within withindelta allclose"
    " arrayalmostequal approxequal beclose isclose equaltoignoringcase equalignoringcase snapshot"
    " matchsnapshot withinpercentage closetovalue nearlyequal withinduration inrange"
    " withinepsilon absdiffeq relativeeq indeltaslice",
    PARTIAL: "contain contains include includes match matches matchregex matchesregex regex regexp"
    " regexpmatches matchespattern startwith endwith startswith endswith startingwith endingwith"
    " prefix suffix substring in isin oneof anyof key haskey keys property length size count"
    " lengthof"
    " len greater greaterthan greaterthanorequal greaterthanorequalto greaterequal"
    " greaterorequal less"
    " lessthan lessthanorequal lessthanorequalto lessequal lessorequal above below least most"
    " atleast"
    " atmost positive negative between matchobject objectmatch arraycontaining stringcontaining"
    " objectcontaining subset hasitem hasitems hasentry entry entries allmatch anymatch every"
    " allsatisfy satisfies satisfy members containtext textcontent text content allof value"
    " attribute"
    " containskey containsentry containsvalue containssequence containsany sizecollection hassize"
    " before after isbefore isafter change by from matchessnapshot throughout lengthgreaterthan"
    " errorcontains equalerror errorregexp haveamessage messagecontaining ordered itemcount"
    " start end"
    " isempty selector logs warns deprecated output select difference nodifference"
    " template redirects visible jsonpath headers header firstelement extracting collect".lower(),
    TYPE: "instanceof instance isinstance kindof instanceofclass a an type typeof respondto isa"
    " implements isassignablefrom matchesstruct exacttype",
    TRUTHY: "true truthy false falsy falsey ok success successful called beencalled hasbeencalled"
    " notequal notsame different unlike different calledwithmatch haveoccurred error noerror"
    " succeed"
    " err wasnotcalled some enabled disabled checked focus isok iserr issome isnone notempty"
    " valid good bool verify",
    PRESENT: "inthedocument visible attached rendered onthescreen notnull notnone notnil defined"
    " present exist exists notundefined anything any nothrow"
    " throwsnothing nothingraised doesnotthrow notraise noexception notpanics nothrows",
}
RANKS = {word: rank for rank, words in _TABLE.items() for word in words.split()}

RAISES = frozenset(
    "raises raise raiseerror raisesregex throws throw throwerror throwsexactly throwsasync"
    " throwsany"
    " throwsinstanceof throwsexception panics panicswitherror panicswithvalue throwsanyexception"
    " throwanyexceptionof thrownby isthrownby expectexception fails failswith throwsa throwexactly"
    " thrown thrownexactly raisesexception throwsmatching throwwithmessage rejects"
    " rejectedwith rejected"
    " intercept interceptmessage throwsthrowable throwmatchingerror raisewithmessage"
    " exceptionoftype ofanytype unsatisfied raisesmessage reject throwasync"
    " throwexception expectexceptionmessage expectexceptionobject throwserrormatchingsnapshot"
    " throwerrormatchinginlinesnapshot message expectmessage raisesgroup exceptionthrown"
    " warns deprecatedcall".split()
)
BROAD = frozenset(
    "Exception BaseException Error Throwable StandardError RuntimeException RuntimeError"
    " System.Exception StandardError Exception.class Throwable.class RuntimeException.class"
    " Error.class java.lang.Exception Object anything any expect.anything".split()
)
_PREFIX = re.compile(
    r"^(assert|refute|should|must|wont|expect|verify|to|is|be|have|has|was|are|do|does|only|that)"
)


def normal(name: str) -> str:
    """``assert_equal``, ``assertEqual`` and ``AssertEqual!`` are one word."""
    return name.lower().replace("_", "").rstrip("!?").strip()


_ALIASES = {
    "nullvalue": "null",
    "emptystring": "empty",
    "emptycollection": "empty",
    "emptyiterable": "empty",
    "emptyarray": "empty",
}


def strength(name: str) -> tuple[str, int | None, bool]:
    """Word, rank and whether it is negated of the name of a matcher or assertion.

    The rank is None where the word is not known, or where it is one for exceptions.
    """
    word, negated = normal(name), False
    for _ in range(6):
        word = _ALIASES.get(word, word)
        if word in RAISES:
            return word, None, negated
        if word in RANKS:
            return word, RANKS[word], negated
        if word.startswith(("not", "wont", "refute", "doesnot")):
            negated = not negated
            word = re.sub(r"^(doesnot|not|wont|refute)", "", word)
            continue
        shorter = _PREFIX.sub("", word)
        if shorter == word:
            break
        if word.startswith(("wont", "refute")):
            negated = True
        word = shorter
    return word, None, negated


def negative(word: str, rank: int) -> int:
    """The rank of the opposite: 'not equal' says little, 'does not contain' a part."""
    if word in ("null", "none", "nil", "undefined", "defined", "exist", "present", "anything"):
        return PRESENT if word not in ("defined", "exist", "present") else EXACT
    if word in ("empty", "zero", "nan", "equal", "equals", "eq", "eql", "be", "same"):
        return TRUTHY
    if word in ("called", "beencalled", "hasbeencalled"):
        return EXACT
    return min(rank, PARTIAL) if rank > TRUTHY else TRUTHY
