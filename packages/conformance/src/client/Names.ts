/**
 * What the interface leaves open, as one server has it: names of parameters, the field of a decision, codes of errors, and how
 * its agent is told what to do. Rules speak our names; the client says them in the server's.
 */
import { Skip } from "./Expect.ts"

/** The service's own spelling of names and codes that the contract leaves open. */
export interface Names {
  /** Of the list of events `after` and `limit`, of a listing `directory`, of a download `path`. */
  readonly parameters: Readonly<Record<string, string>>
  /** The field of a decision about an approval. */
  readonly decision: string
  /** By our code the server's, as `CODE`, or `STATUS CODE` where its status is another one too. */
  readonly codes: Readonly<Record<string, string>>
  /** Whether any code will do that is not in `codes`. */
  readonly anyCode: boolean
  /**
   * By our directive the server's, with `{text}` for all that follows our directive's name, or of `write` `{path}`, `{content}` and
   * `{repo}`. `null`: the server's agent is ours.
   */
  readonly directives: Readonly<Record<string, string>> | null
}

/** Slipway's own spelling. */
export const OURS: Names = { parameters: {}, decision: "decision", codes: {}, anyCode: false, directives: null }

const PARAMETERS = ["after", "limit", "directory", "path"]

const isTexts = (value: unknown): value is Readonly<Record<string, string>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) &&
  Object.values(value).every((text) => typeof text === "string" && text !== "")

/** What is in a file of names, or what is wrong with it. */
export const parse = (text: string): Omit<Names, "anyCode"> | string => {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch {
    return "it is not JSON"
  }
  if (typeof file !== "object" || file === null || Array.isArray(file)) return "it is not a JSON object"
  const { codes = {}, decision = OURS.decision, directives = null, parameters = {}, ...others } = file as Record<string, unknown>
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return `${JSON.stringify(unknown)} is not known: parameters, decision, codes and directives are`
  if (typeof decision !== "string" || decision === "") return "decision is the name of a field"
  if (!isTexts(codes)) return "codes is an object of texts"
  if (!isTexts(parameters)) return "parameters is an object of texts"
  const other = Object.keys(parameters).find((name) => !PARAMETERS.includes(name))
  if (other !== undefined) return `the parameter ${JSON.stringify(other)} is not open: ${PARAMETERS.join(", ")} are`
  if (directives !== null && !isTexts(directives)) return "directives is an object of texts"
  return { parameters, decision, codes, directives }
}

/** Which parameters of which addresses are open. */
const OPEN: ReadonlyArray<readonly [path: RegExp, parameters: ReadonlyArray<string>]> = [
  [/\/sandboxes\/[^/]+\/events$/u, ["after", "limit"]],
  [/\/files\/tree$/u, ["directory"]],
  [/\/files\/download$/u, ["path"]]
]

/** An address with its query. */
export const inPath = ({ parameters }: Names, address: string): string => {
  const [path = "", ...query] = address.split("?")
  const open = OPEN.find(([of]) => of.test(path))?.[1] ?? []
  const renamed = query.join("?").split("&").map((pair) => {
    const [name = "", ...value] = pair.split("=")
    return [open.includes(name) ? parameters[name] ?? name : name, ...value].join("=")
  })
  return query.length === 0 ? address : `${path}?${renamed.join("&")}`
}

const DIRECTIVE = /\[\[(\w+)(?: ([\s\S]*?))?\]\]/gu
const WRITE = /^(?:repo=(\S+) )?path=(\S+) content=([\s\S]*)$/u

/** Whether the server's agent can be told that. */
export const knows = ({ directives }: Names, name: string): boolean => directives === null || Object.hasOwn(directives, name)

const inPrompt = ({ directives }: Names, prompt: string): string =>
  directives === null ? prompt : prompt.replaceAll(DIRECTIVE, (_, name: string, text = "") => {
    const template = Object.hasOwn(directives, name) ? directives[name] : undefined
    if (template === undefined) throw new Skip(`the server's agent has no directive for ${name}`)
    const [, repo = "", path = "", content = ""] = WRITE.exec(text) ?? []
    const fields: Readonly<Record<string, string>> = { text, repo, path, content }
    return template.replaceAll(/\{(text|repo|path|content)\}/gu, (_, field: string) => fields[field] ?? "")
  })

/** A body that is sent as JSON. */
export const inBody = (names: Names, address: string, body: unknown): unknown => {
  if (typeof body !== "object" || body === null || Array.isArray(body) || body instanceof Uint8Array) return body
  const decides = address.includes("/approvals/")
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [
      decides && name === "decision" ? names.decision : name,
      name === "prompt" && typeof value === "string" ? inPrompt(names, value) : value
    ])
  )
}

/** Whether a refusal, as `status code`, is what we call that. */
export const isCode = ({ anyCode, codes }: Names, refusal: string, status: number, code: string): boolean => {
  const theirs = Object.hasOwn(codes, code) ? codes[code] : undefined
  if (theirs === undefined) return anyCode ? refusal.startsWith(`${status} `) && refusal.length > 4 : refusal === `${status} ${code}`
  return refusal === (/^\d{3} /u.test(theirs) ? theirs : `${status} ${theirs}`)
}
