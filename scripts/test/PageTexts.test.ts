/** The texts that people read on the pages keep the rules of plain English: they name the object, and say what to do. */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { parseSync, Visitor } from "rolldown/utils"
import { WORDS } from "../structure.mjs"

const ROOT = path.join(import.meta.dirname, "../..")

/** Shapes of sentences that readers stumble over, beside the words that `structure.mjs` counts. */
const SHAPES: ReadonlyArray<RegExp> = [
  ...Object.values(WORDS as Readonly<Record<string, RegExp>>).map(({ source }) => new RegExp(source, "iu")),
  // Passives and nouns instead of a verb.
  /\b(?:is|are) to be\b/iu,
  /\b(?:was|were) asked for\b/iu,
  /\b(?:is|are) not shown\b/iu,
  /\bnothing was done\b/iu,
  // "no X" instead of "not an X", and nouns left out.
  /\bno such\b/iu,
  /\bthere (?:is|are) none\b/iu,
  /\bthat is (?:no\b|not how\b)/iu,
  /\bthat cannot be done\b/iu,
  // A sentence that begins with a pronoun: of what?
  /(?:^|[.!?:…] )(?:it|they) (?:is|are|was|were)\b/iu,
  /^Of\b/u,
  // Words that only we use.
  /\bas things stand\b/iu,
  /\bgone for good\b/iu,
  /\bgoes on after\b/iu,
  /\bsigns? along\b/iu,
  /\bstops working\b/iu,
  /\bmint(?:s|ed)?\b/iu,
  /\btake(?:n)? back\b/iu,
  /\bkeep (?:it|them)\b/iu,
  /\bnot as\b/iu
]

/** One of the counted words. */
const [COUNTED = ""] = Object.keys(WORDS as object)

interface Text {
  readonly line: number
  readonly text: string
}

/** Tags within a sentence. All others end it. */
const INLINE = /<\/?(?:a|b|code|em|kbd|span|strong|time)\b(?:"[^"]*"|[^">])*>/gu
const TAG = /<(?:"[^"]*"|[^">])*>/gu
/** Attributes that people read or hear. */
const READ = /\s(?:alt|aria-label|placeholder|title|content|data-label)="([^"]*)"/gu

const plain = (text: string): string => text.replaceAll(/\s+/gu, " ").trim()
const isSaid = (text: string): boolean => /\p{L}{2}/u.test(text)
/** Words for people: several of them, or a capitalized one. Others are names, such as those of classes. */
const isForPeople = (text: string): boolean => /\p{L} \p{L}/u.test(text) || /^\p{Lu}\p{Ll}/u.test(text)

/** Takes the place of what is no text, so that offsets stay those of the source. */
const FILL = "\0"
const filled = (part: string, first = FILL): string => first + FILL.repeat(part.length - 1)
/** Ends a sentence: a tag of a block. */
const END = "\u0001"

interface Template {
  readonly start: number
  readonly end: number
  readonly quasis: ReadonlyArray<{ readonly start: number; readonly value: { readonly raw: string } }>
}

/** The template as long as it is in the source, with `…` for each value. */
const templateText = ({ end, quasis, start }: Template, source: string): string => {
  let text = ""
  for (const { start: near, value: { raw } } of quasis) {
    const gap = source.slice(start + text.length, source.indexOf(raw, near))
    text += (gap === "" ? "" : filled(gap, text === "" ? FILL : "…")) + raw
  }
  return text.padEnd(end - start, FILL)
}

/** The texts of a module: those of its templates without their markup, and its strings. */
const textsOf = (file: string, source: string): ReadonlyArray<Text> => {
  const { program } = parseSync(file, source)
  const texts: Array<Text> = []
  const templates = new Set<unknown>()
  const add = (at: number, text: string) => {
    const said = plain(text.replaceAll(FILL, ""))
    const before = source.slice(0, at + text.search(/[^\s\0]/u))
    if (isSaid(said)) texts.push({ line: before.split("\n").length, text: said })
  }
  new Visitor({
    TaggedTemplateExpression: ({ quasi, tag }) => {
      if (tag.type !== "Identifier" || tag.name !== "html") return
      templates.add(quasi)
      const markup = templateText(quasi, source)
      for (const { 1: text = "", index } of markup.matchAll(READ)) add(quasi.start + index, text)
      let at = quasi.start
      for (const text of markup.replaceAll(INLINE, (tag) => filled(tag)).replaceAll(TAG, (tag) => filled(tag, END)).split(END)) {
        add(at, text)
        at += text.length + 1
      }
    },
    TemplateLiteral: (node) => {
      const text = templateText(node, source)
      if (!templates.has(node) && isForPeople(plain(text.replaceAll(FILL, "")))) add(node.start, text)
    },
    Literal: ({ start, value }) => {
      if (typeof value === "string" && isForPeople(value)) add(start, value)
    }
  }).visit(program)
  return texts
}

const filesIn = (folder: string, end: string): ReadonlyArray<string> =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(end) && !file.endsWith(".d.ts"))
    .map((file) => path.posix.join(folder, file))
    .sort()

const problemsOf = (file: string, texts: ReadonlyArray<Text>): ReadonlyArray<string> =>
  texts.flatMap(({ line, text }) => {
    const found = SHAPES.map((shape) => shape.exec(text)?.[0]).find((phrase) => phrase !== undefined)
    return found === undefined ? [] : [`${file}:${line}: "${found.trim()}" in: ${text}`]
  })

describe("the texts of the pages", () => {
  const files = [...filesIn("packages/pages/src", ".ts"), ...filesIn("packages/pages/assets", ".js")]
  const pages = files.map((file) => ({
    file,
    texts: textsOf(file, readFileSync(path.join(ROOT, file), "utf8"))
  }))

  it("are all found: in markup, in lists of labels, and in the scripts of the browser", () => {
    const all = pages.flatMap(({ texts }) => texts.map(({ text }) => text))
    for (const text of ["What should the agent do?", "Message the agent…", "Ended after inactivity.", "Couldn't send. Try again."]) {
      assert.include(all, text)
    }
  })

  it("are plain English", () => {
    assert.deepStrictEqual(pages.flatMap(({ file, texts }) => problemsOf(file, texts)), [])
  })

  it("are refused with their file and line otherwise", () => {
    const source = [
      "const a = \"There is none yet.\"",
      "const b = html`<p class=\"it is\">A fine text.</p>",
      "<p>${list.map((one) => `<b>",
      "${one}`)} files <strong>are</strong> not shown here.</p>",
      "<input placeholder=\"What is to be done?\">`",
      "const c = { merged: \"It is merged.\", asked: `${n} and " + COUNTED + "` }"
    ].join("\n")
    assert.deepStrictEqual(problemsOf("Page.ts", textsOf("Page.ts", source)).map((problem) => problem.replace(/" in: .*/u, "")), [
      "Page.ts:1: \"There is none",
      "Page.ts:5: \"is to be",
      "Page.ts:3: \"are not shown",
      "Page.ts:6: \"It is",
      `Page.ts:6: "${COUNTED}`
    ])
  })
})
