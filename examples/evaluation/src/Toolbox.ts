/**
 * Twenty small faults of a repository of functions, as tasks. The offline agent has no model: it follows the directives of `does`, and
 * ignores the sentence before them. Some of its changes are wrong on purpose.
 */

export interface Exercise {
  readonly name: string
  /** As a person would report it. */
  readonly problem: string
  readonly faulty: string
  /** The content that the offline agent writes; `null`: it does something else, by `script`. */
  readonly written: string | null
  readonly script?: string
  /** Assertions that fail on `faulty`, and assertions that hold before and after. */
  readonly fails: string
  readonly holds: string
}

const fixed = (name: string, problem: string, faulty: string, written: string, fails: string, holds: string): Exercise => ({
  name,
  problem,
  faulty,
  written,
  fails,
  holds
})

export const exercises: ReadonlyArray<Exercise> = [
  fixed(
    "sum",
    "sum([]) throws. It should be 0.",
    "export const sum = (numbers) => numbers.reduce((a, b) => a + b)",
    "export const sum = (numbers) => numbers.reduce((a, b) => a + b, 0)",
    "equal(sum([]), 0)",
    "equal(sum([1, 2]), 3)"
  ),
  fixed(
    "clamp",
    "clamp(9, 0, 5) is 0 and not 5.",
    "export const clamp = (n, low, high) => Math.max(high, Math.min(low, n))",
    "export const clamp = (n, low, high) => Math.min(high, Math.max(low, n))",
    "equal(clamp(9, 0, 5), 5); equal(clamp(3, 0, 5), 3)",
    "equal(clamp(0, 0, 0), 0)"
  ),
  fixed(
    "unique",
    "unique keeps the last of equal values in front.",
    "export const unique = (values) => [...new Set(values.reverse())]",
    "export const unique = (values) => [...new Set(values)]",
    "deepEqual(unique([1, 2, 1]), [1, 2])",
    "deepEqual(unique([]), [])"
  ),
  fixed(
    "chunk",
    "chunk leaves out the rest.",
    "export const chunk = (all, size) => all.flatMap((_, i) => i % size || i + size > all.length ? [] : [all.slice(i, i + size)])",
    "export const chunk = (all, size) => all.flatMap((_, i) => i % size ? [] : [all.slice(i, i + size)])",
    "deepEqual(chunk([1, 2, 3], 2), [[1, 2], [3]])",
    "deepEqual(chunk([1, 2], 2), [[1, 2]])"
  ),
  fixed(
    "range",
    "range(2, 4) has 4 numbers.",
    "export const range = (from, to) => Array.from({ length: to }, (_, i) => from + i)",
    "export const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)",
    "deepEqual(range(2, 4), [2, 3])",
    "deepEqual(range(0, 2), [0, 1])"
  ),
  fixed(
    "palindrome",
    "\"Anna\" is no palindrome because of its case.",
    "export const palindrome = (text) => text === [...text].reverse().join(\"\")",
    "export const palindrome = (text) => text.toLowerCase() === [...text.toLowerCase()].reverse().join(\"\")",
    "equal(palindrome(\"Anna\"), true)",
    "equal(palindrome(\"ab\"), false)"
  ),
  fixed(
    "slugify",
    "slugify leaves two hyphens for two spaces.",
    "export const slugify = (text) => text.toLowerCase().replaceAll(/[^a-z0-9]/gu, \"-\")",
    "export const slugify = (text) => text.toLowerCase().replaceAll(/[^a-z0-9]+/gu, \"-\")",
    "equal(slugify(\"A  b\"), \"a-b\")",
    "equal(slugify(\"A b\"), \"a-b\")"
  ),
  fixed(
    "median",
    "median sorts numbers as text.",
    "export const median = (numbers) => numbers.toSorted()[Math.floor(numbers.length / 2)]",
    "export const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]",
    "equal(median([10, 9, 1]), 9)",
    "equal(median([3, 1, 2]), 2)"
  ),
  fixed(
    "truncate",
    "truncate makes texts longer than allowed.",
    "export const truncate = (text, length) => text.length > length ? text.slice(0, length) + \"…\" : text",
    "export const truncate = (text, length) => text.length > length ? text.slice(0, length - 1) + \"…\" : text",
    "equal(truncate(\"abcd\", 3), \"ab…\")",
    "equal(truncate(\"abc\", 3), \"abc\")"
  ),
  fixed(
    "camelCase",
    "camelCase changes the first hyphen alone.",
    "export const camelCase = (text) => text.replace(/-(.)/u, (_, letter) => letter.toUpperCase())",
    "export const camelCase = (text) => text.replaceAll(/-(.)/gu, (_, letter) => letter.toUpperCase())",
    "equal(camelCase(\"a-b-c\"), \"aBC\")",
    "equal(camelCase(\"a-b\"), \"aB\")"
  ),
  fixed(
    "gcd",
    "gcd(4, 6) does not end.",
    "export const gcd = (a, b) => a < 0 ? -1 : b === 0 ? a : a === b ? a : 1",
    "export const gcd = (a, b) => b === 0 ? a : gcd(b, a % b)",
    "equal(gcd(4, 6), 2)",
    "equal(gcd(5, 0), 5)"
  ),
  fixed(
    "leapYear",
    "1900 was no leap year.",
    "export const leapYear = (year) => year % 4 === 0",
    "export const leapYear = (year) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)",
    "equal(leapYear(1900), false)",
    "equal(leapYear(2024), true); equal(leapYear(2000), true)"
  ),
  fixed(
    "words",
    "words counts spaces at the end.",
    "export const words = (text) => text.split(/\\s+/u).length",
    "export const words = (text) => text.split(/\\s+/u).filter((word) => word !== \"\").length",
    "equal(words(\"a b \"), 2)",
    "equal(words(\"a b\"), 2)"
  ),
  fixed(
    "zip",
    "zip adds undefined where the second list is shorter.",
    "export const zip = (a, b) => a.map((value, i) => [value, b[i]])",
    "export const zip = (a, b) => a.slice(0, b.length).map((value, i) => [value, b[i]])",
    "deepEqual(zip([1, 2], [3]), [[1, 3]])",
    "deepEqual(zip([1], [2]), [[1, 2]])"
  ),
  // The agent breaks a test that passed.
  fixed(
    "capitalize",
    "capitalize(\"\") throws.",
    "export const capitalize = (text) => text[0].toUpperCase() + text.slice(1)",
    "export const capitalize = (text) => text.toUpperCase()",
    "equal(capitalize(\"\"), \"\")",
    "equal(capitalize(\"ab\"), \"Ab\")"
  ),
  // The agent changes the wrong thing.
  fixed(
    "modulo",
    "modulo(-1, 3) is negative.",
    "export const modulo = (a, b) => a % b",
    "export const modulo = (a, b) => Math.abs(a % b)",
    "equal(modulo(-1, 3), 2)",
    "equal(modulo(4, 3), 1)"
  ),
  fixed(
    "initials",
    "initials of two names have a space.",
    "export const initials = (name) => name.split(\" \").map(([first]) => first).join(\" \")",
    "export const initials = (name) => name.split(\" \").map(([first]) => first).join(\".\")",
    "equal(initials(\"Ada Lovelace\"), \"AL\")",
    "equal(initials(\"Ada\"), \"A\")"
  ),
  // It answers without a change.
  {
    name: "roman",
    problem: "roman(4) is IIII.",
    faulty: "export const roman = (n) => \"I\".repeat(n)",
    written: null,
    script: "[[say I would use subtractive notation.]]",
    fails: "equal(roman(4), \"IV\")",
    holds: "equal(roman(3), \"III\")"
  },
  // Its model fails.
  {
    name: "flatten",
    problem: "flatten goes one level deep.",
    faulty: "export const flatten = (values) => values.flat()",
    written: null,
    script: "[[error the model is overloaded]]",
    fails: "deepEqual(flatten([[[1]]]), [1])",
    holds: "deepEqual(flatten([[1]]), [1])"
  },
  // It rewrites the test, which the task's own replaces.
  {
    name: "partition",
    problem: "partition returns the halves the other way round.",
    faulty: "export const partition = (values, test) => [values.filter((v) => !test(v)), values.filter(test)]",
    written: null,
    script: "[[write path=test/partition.test.mjs content=// It works.]]",
    fails: "deepEqual(partition([1, 2], (n) => n > 1), [[2], [1]])",
    holds: "deepEqual(partition([], Boolean), [[], []])"
  }
]
