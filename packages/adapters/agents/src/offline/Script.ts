/** The offline agent's language: a prompt is a script of `[[directives]]`. README.md in this folder describes it. */

/** A step of the agent's plan, in ACP's format. */
export interface PlanEntry {
  readonly content: string
  readonly status: "pending" | "in_progress" | "completed"
  readonly priority: "medium"
}

export type Step =
  | { readonly kind: "say" | "think" | "shell" | "error"; readonly text: string }
  | { readonly kind: "write"; readonly repo: string | null; readonly path: string; readonly content: string }
  | { readonly kind: "delete"; readonly repo: string | null; readonly path: string }
  | { readonly kind: "slow"; readonly words: number; readonly millis: number }
  | { readonly kind: "ask"; readonly questions: ReadonlyArray<AskedQuestion> }
  | { readonly kind: "plan"; readonly entries: ReadonlyArray<PlanEntry> }
  | { readonly kind: "delegate"; readonly text: string }
  | { readonly kind: "hang" | "listen" | "crash" | "recall" | "images" | "back" }
  /** A directive that cannot be executed. `problem` is a sentence for its author. */
  | { readonly kind: "invalid"; readonly problem: string }

/** A question of `[[ask]]`. */
export interface AskedQuestion {
  readonly text: string
  readonly options: ReadonlyArray<string>
  readonly multiple: boolean
  readonly allowsText: boolean
}

/** Longest answer of `[[slow]]`, and the longest pause between two of its words. */
const MAX_WORDS = 10_000
const MAX_PAUSE_MILLIS = 60_000

/** Only `\]` is special, so commands and regular expressions need no other escapes. */
const unescape = (text: string) => text.replaceAll("\\]", "]")

/** Index of the next `]]` that is not written `\]]`, or -1. */
const closing = (prompt: string, from: number): number => {
  for (let i = from; i < prompt.length; i++) {
    if (prompt.startsWith("\\]", i)) i++
    else if (prompt.startsWith("]]", i)) return i
  }
  return -1
}

const OPTION = /^(path|repo)=(?:"([^"]*)"|(\S+))\s*/u

/** Reads leading `path=` and `repo=` options; the text after them is `rest`. */
const readOptions = (body: string) => {
  const options: { path: string; repo: string | null; rest: string } = { path: "", repo: null, rest: body }
  for (let match; (match = OPTION.exec(options.rest)) !== null;) {
    options[match[1] === "path" ? "path" : "repo"] = unescape(match[2] ?? match[3] ?? "")
    options.rest = options.rest.slice(match[0].length)
  }
  return options
}

const FLAG = /^(multiple|text)=(true|false)\s*/u

/** A question with its options, such as `multiple=true text=false Which? | first | second`. */
const readQuestion = (part: string): AskedQuestion => {
  const [first = "", ...options] = part.split("|").map((one) => unescape(one.trim()))
  const flags = { multiple: false, text: true }
  let text = first
  for (let match; (match = FLAG.exec(text)) !== null;) {
    flags[match[1] === "text" ? "text" : "multiple"] = match[2] === "true"
    text = text.slice(match[0].length)
  }
  return { text, options, multiple: flags.multiple, allowsText: flags.text }
}

const invalid = (problem: string): Step => ({ kind: "invalid", problem })

const withText = (kind: "say" | "think" | "shell" | "error" | "delegate") => (body: string): Step =>
  body === "" ? invalid(`[[${kind}]] needs a text, as in [[${kind} TEXT]].`) : { kind, text: unescape(body) }

const STATUSES: Readonly<Record<string, PlanEntry["status"]>> = { "+": "completed", ">": "in_progress", "-": "pending" }

/** `+ done; > under way; - to do`. Without a step the plan is dropped. */
const plan = (body: string): Step => {
  const steps = body.split(";").map((step) => step.trim()).filter((step) => step !== "")
  const entries = steps.flatMap((step): ReadonlyArray<PlanEntry> => {
    const status = STATUSES[step[0] ?? ""]
    return status === undefined ? [] : [{ content: unescape(step.slice(1).trim()), status, priority: "medium" }]
  })
  return entries.length === steps.length
    ? { kind: "plan", entries }
    : invalid("[[plan]] needs +, > or - before each step, as in [[plan + read; > fix; - test]].")
}

const alone = (kind: "hang" | "listen" | "crash" | "recall" | "images" | "back") => (body: string): Step =>
  body === "" ? { kind } : invalid(`[[${kind}]] takes nothing after its name.`)

const directives: Readonly<Record<string, (body: string) => Step>> = {
  say: withText("say"),
  think: withText("think"),
  shell: withText("shell"),
  error: withText("error"),
  hang: alone("hang"),
  listen: alone("listen"),
  crash: alone("crash"),
  recall: alone("recall"),
  images: alone("images"),
  ask: (body) =>
    body === ""
      ? invalid("[[ask]] needs a question, as in [[ask Which one? | first | second]].")
      : { kind: "ask", questions: body.split("||").map(readQuestion) },
  plan,
  delegate: withText("delegate"),
  back: alone("back"),
  write: (body) => {
    const { path, repo, rest } = readOptions(body)
    return path !== "" && rest.startsWith("content=")
      ? { kind: "write", repo, path, content: unescape(rest.slice("content=".length)) }
      : invalid("[[write]] needs a path and a content, as in [[write path=docs/a.txt content=TEXT]].")
  },
  delete: (body) => {
    const { path, repo, rest } = readOptions(body)
    return path !== "" && rest === ""
      ? { kind: "delete", repo, path }
      : invalid("[[delete]] needs a path, as in [[delete path=docs/a.txt]].")
  },
  slow: (body) => {
    const [words = NaN, millis = NaN, ...more] = body
      .split(/\s+/u)
      .map((part) => (/^\d+$/u.test(part) ? Number(part) : NaN))
    return more.length === 0 && words <= MAX_WORDS && millis <= MAX_PAUSE_MILLIS
      ? { kind: "slow", words, millis }
      : invalid(`[[slow]] needs a number of words up to ${MAX_WORDS} and of milliseconds up to ${MAX_PAUSE_MILLIS}.`)
  }
}

/** The directives of `prompt` in order. Other text is ignored, including unknown and unclosed directives. `more`: additional directives. */
export const parse = <S = never>(prompt: string, more: Readonly<Record<string, (body: string) => S>> = {}): ReadonlyArray<Step | S> => {
  const steps: Array<Step | S> = []
  const known: Readonly<Record<string, (body: string) => Step | S>> = { ...directives, ...more }
  for (let at = prompt.indexOf("[["); at >= 0; at = prompt.indexOf("[[", at)) {
    at += 2
    const name = /^[a-z]+(?=\s|\]\])/u.exec(prompt.slice(at, at + 16))?.[0]
    const read = name !== undefined && Object.hasOwn(known, name) ? known[name] : undefined
    if (name === undefined || read === undefined) continue
    const end = closing(prompt, at + name.length)
    if (end < 0) break
    steps.push(read(prompt.slice(at + name.length, end).trim()))
    at = end + 2
  }
  return steps
}
