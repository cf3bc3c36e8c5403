/** Templates of prompts: text with placeholders such as `{{issue.title}}`, which the event of a run fills in. */
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"

/** Characters of a template. The rest of a prompt is for the values. */
export const MAX_TEMPLATE = 20_000

/** Placeholders of one template. */
export const MAX_PLACEHOLDERS = 20

/** The kinds of triggers. */
export const TriggerKind = Schema.Literals(["schedule", "webhook", "mention", "label"])
export type TriggerKind = typeof TriggerKind.Type

const ALWAYS = ["automation.name", "run.time"]
const OF_ISSUES = ["repo", "issue.number", "issue.title", "issue.url"]

/** The placeholders that each kind of trigger fills in; a webhook's payload has others, see {@link payloadPath}. */
export const PLACEHOLDERS: Readonly<Record<TriggerKind, ReadonlyArray<string>>> = {
  schedule: ALWAYS,
  webhook: ALWAYS,
  mention: [...ALWAYS, ...OF_ISSUES, "comment.body", "comment.author", "comment.url"],
  label: [...ALWAYS, ...OF_ISSUES, "issue.body", "label"]
}

/** Names after `payload` in a placeholder. */
const MAX_DEPTH = 8

/** The names of `payload.a.b`; `null`: another placeholder. An array's elements have their numbers as names. */
export const payloadPath = (name: string): ReadonlyArray<string> | null => {
  const [root, ...path] = name.split(".")
  return root === "payload" && path.length > 0 && path.length <= MAX_DEPTH && path.every((part) => /^[\w-]{1,64}$/u.test(part))
    ? path
    : null
}

/** Matches each placeholder of a template, with its name as the first group. The names are short, so matching takes linear time. */
export const PLACEHOLDER = /\{\{([^{}]{0,700})\}\}/gu

/** The names in the template's placeholders, in order. */
export const namesIn = (template: string): ReadonlyArray<string> =>
  Array.from(template.matchAll(PLACEHOLDER), ([, name = ""]) => name.trim())

/** Whether a trigger of this kind fills the placeholder in. */
export const isKnown = (kind: TriggerKind, name: string): boolean =>
  PLACEHOLDERS[kind].includes(name) || kind === "webhook" && payloadPath(name) !== null

/** A template's text. Which placeholders it may have depends on the trigger. */
export const Template = text(1, MAX_TEMPLATE).check(
  Schema.makeFilter((template: string) => template.trim() !== "", { expected: "a text that is not blank", toJsonSchema: () => [{}, true] }),
  Schema.makeFilter((template: string) => namesIn(template).length <= MAX_PLACEHOLDERS, {
    expected: `at most ${MAX_PLACEHOLDERS} placeholders`,
    toJsonSchema: () => [{}, true]
  })
)
