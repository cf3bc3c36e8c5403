/**
 * The names that the interface leaves open, for one server: parameters, the field of a decision, error codes, and the agent's
 * directives. Rules use our names; the client translates them to the server's.
 */
import { Skip } from "./Expect.ts"

/** The service's own spelling of names and codes that the contract leaves open. */
export interface Names {
  /** The parameters `after` and `limit` of the event list, `directory` of a listing, `path` of a download. */
  readonly parameters: Readonly<Record<string, string>>
  /** The field of a decision about an approval. */
  readonly decision: string
  /** The server's code by ours, as `CODE`, or as `STATUS CODE` if its status differs too. */
  readonly codes: Readonly<Record<string, string>>
  /** Whether codes outside `codes` may be anything. */
  readonly anyCode: boolean
  /**
   * The server's directive by ours. `{text}` stands for the text after our directive's name; `write` also has `{path}`, `{content}` and
   * `{repo}`. `null`: the server has our agent.
   */
  readonly directives: Readonly<Record<string, string>> | null
}

/** Slipway's own spelling. */
export const OURS: Names = { parameters: {}, decision: "decision", codes: {}, anyCode: false, directives: null }

const PARAMETERS = ["after", "limit", "directory", "path"]

const isTexts = (value: unknown): value is Readonly<Record<string, string>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) &&
  Object.values(value).every((text) => typeof text === "string" && text !== "")

/** Parses a file of names, or returns its fault. */
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

/** The open parameters by path. */
const OPEN: ReadonlyArray<readonly [path: RegExp, parameters: ReadonlyArray<string>]> = [
  [/\/sandboxes\/[^/]+\/events$/u, ["after", "limit"]],
  [/\/files\/tree$/u, ["directory"]],
  [/\/files\/download$/u, ["path"]]
]

/** The address with the server's parameter names. */
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

/** Whether the server's agent knows the directive. */
export const knows = ({ directives }: Names, name: string): boolean => directives === null || Object.hasOwn(directives, name)

const inPrompt = ({ directives }: Names, prompt: string): string =>
  directives === null ? prompt : prompt.replaceAll(DIRECTIVE, (_, name: string, text = "") => {
    const template = Object.hasOwn(directives, name) ? directives[name] : undefined
    if (template === undefined) throw new Skip(`the server's agent has no directive for ${name}`)
    const [, repo = "", path = "", content = ""] = WRITE.exec(text) ?? []
    const fields: Readonly<Record<string, string>> = { text, repo, path, content }
    return template.replaceAll(/\{(text|repo|path|content)\}/gu, (_, field: string) => fields[field] ?? "")
  })

/** The body with the server's names. */
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

/** Whether a refusal, as `status code`, is our `code`. */
export const isCode = ({ anyCode, codes }: Names, refusal: string, status: number, code: string): boolean => {
  const theirs = Object.hasOwn(codes, code) ? codes[code] : undefined
  if (theirs === undefined) return anyCode ? refusal.startsWith(`${status} `) && refusal.length > 4 : refusal === `${status} ${code}`
  return refusal === (/^\d{3} /u.test(theirs) ? theirs : `${status} ${theirs}`)
}
