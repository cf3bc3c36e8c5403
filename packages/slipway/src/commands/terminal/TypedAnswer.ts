/** A person's typed answers to the questions of an agent. */
import type { Question, QuestionAnswer } from "@slipway/client"

/** The answer; `dismiss`: the whole request; `problem`: what is wrong with the line, as a sentence. */
type Typed = { readonly answer: QuestionAnswer } | { readonly dismiss: true } | { readonly problem: string }

/** The accepted forms of a line, for the prompt. */
export const prompt = ({ allows_text, multiple, options }: Pick<Question, "allows_text" | "multiple" | "options">): string => {
  const numbers = options.length === 0 ? [] : [multiple ? "numbers with commas" : "a number"]
  return `Answer: ${[...numbers, ...(allows_text ? ["your own words"] : [])].join(" or ")}, -: no answer > `
}

const NUMBERS = /^\d+(?:\s*,\s*\d+)*$/u

/** Numbers and labels choose options; any other line is an answer in the person's own words. */
export const read = ({ allows_text, multiple, options }: Question, line: string): Typed => {
  const typed = line.trim()
  if (typed === "") return { problem: "" }
  if (typed === "-") return { dismiss: true }
  const named = options.find(({ label }) => label === typed) ?? options.find(({ label }) => label.toLowerCase() === typed.toLowerCase())
  if (named !== undefined) return { answer: { labels: [named.label] } }
  if (options.length > 0 && NUMBERS.test(typed)) {
    const labels = [...new Set(typed.split(",").map(Number))].map((number) => options[number - 1]?.label)
    const known = labels.filter((label) => label !== undefined)
    if (known.length < labels.length) return { problem: `The options are numbered from 1 to ${options.length}.` }
    return multiple || known.length === 1 ? { answer: { labels: known } } : { problem: "Choose one option." }
  }
  return allows_text ? { answer: { text: typed } } : { problem: "Choose from the options by their numbers." }
}
