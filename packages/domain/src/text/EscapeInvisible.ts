/**
 * Makes untrusted text safe to judge. Characters that are invisible, move the cursor or change the reading order are shown by name, so
 * that two texts that look the same are the same. Tab and line feed stay as they are.
 */

/** Names of Unicode's `NameAliases.txt` for U+0000 to U+001F and U+007F to U+009F, in order. */
const C0 = "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
const C1 = "DEL PAD HOP BPH NBH IND NEL SSA ESA HTS HTJ VTS PLD PLU RI SS2 SS3 DCS PU1 PU2 STS CCH MW SPA EPA SOS SGC SCI CSI ST OSC PM APC"
const controls = (names: string, first: number) => names.split(" ").map((name, i) => [String.fromCodePoint(first + i), name] as const)

/** Names by character. Characters without a name are shown by their number. */
const NAMES: Readonly<Record<string, string>> = Object.fromEntries([
  ...controls(C0, 0),
  ...controls(C1, 0x7f),
  ["\u00ad", "SOFT HYPHEN"],
  ["\u034f", "COMBINING GRAPHEME JOINER"],
  ["\u061c", "ARABIC LETTER MARK"],
  ["\u115f", "HANGUL CHOSEONG FILLER"],
  ["\u1160", "HANGUL JUNGSEONG FILLER"],
  ["\u180e", "MONGOLIAN VOWEL SEPARATOR"],
  ["\u200b", "ZERO WIDTH SPACE"],
  ["\u200c", "ZERO WIDTH NON-JOINER"],
  ["\u200d", "ZERO WIDTH JOINER"],
  ["\u200e", "LEFT-TO-RIGHT MARK"],
  ["\u200f", "RIGHT-TO-LEFT MARK"],
  ["\u2028", "LINE SEPARATOR"],
  ["\u2029", "PARAGRAPH SEPARATOR"],
  ["\u202a", "LEFT-TO-RIGHT EMBEDDING"],
  ["\u202b", "RIGHT-TO-LEFT EMBEDDING"],
  ["\u202c", "POP DIRECTIONAL FORMATTING"],
  ["\u202d", "LEFT-TO-RIGHT OVERRIDE"],
  ["\u202e", "RIGHT-TO-LEFT OVERRIDE"],
  ["\u2060", "WORD JOINER"],
  ["\u2066", "LEFT-TO-RIGHT ISOLATE"],
  ["\u2067", "RIGHT-TO-LEFT ISOLATE"],
  ["\u2068", "FIRST STRONG ISOLATE"],
  ["\u2069", "POP DIRECTIONAL ISOLATE"],
  ["\u2800", "BRAILLE PATTERN BLANK"],
  ["\u3164", "HANGUL FILLER"],
  ["\ufeff", "ZERO WIDTH NO-BREAK SPACE"],
  ["\uffa0", "HALFWIDTH HANGUL FILLER"]
])

/**
 * The characters that are shown by name: controls, formats (which include all that change the reading order), line separators, lone
 * surrogates, and other invisible ones. Joiners within emoji are excluded. Source of a regular expression with the flag `u`.
 */
export const HIDDEN = String.raw`[\0-\x08\x0b-\x1f\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]` +
  String.raw`(?<!(?:\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d(?=\p{Extended_Pictographic}))` +
  String.raw`(?<!\p{Extended_Pictographic}\ufe0f)`

const hidden = new RegExp(HIDDEN, "gu")

const nameOf = (char: string): string => `⟨${NAMES[char] ?? `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`}⟩`

/** The text with every hidden character as its name in `⟨⟩`, such as `⟨RIGHT-TO-LEFT OVERRIDE⟩`. Idempotent. */
export const visible = (text: string): string => text.replace(hidden, nameOf)
