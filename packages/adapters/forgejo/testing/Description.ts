/**
 * Holds requests and answers to the published descriptions of Forgejo's and Gitea's APIs (api.json, Swagger 2.0). The descriptions are
 * made from Go structures and do not say which fields may be `null`, so that all fields of answers may be.
 */
import { Ajv, type ValidateFunction } from "ajv"
import { readFileSync } from "node:fs"

export type Flavour = "forgejo" | "gitea"

interface Parameter {
  readonly in: "path" | "query" | "body"
  readonly name: string
  readonly required?: boolean
  readonly type?: string
  readonly enum?: ReadonlyArray<string>
  readonly schema?: Schema
}
type Schema = Readonly<Record<string, unknown>>
interface Operation {
  readonly parameters: ReadonlyArray<Parameter>
  readonly responses: Readonly<Record<string, { readonly schema?: Schema }>>
}
interface Described {
  readonly source: string
  readonly licence: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly definitions: Readonly<Record<string, Schema>>
}

/** An API request with its answer. */
export interface Exchange {
  readonly method: string
  /** Below the API's address, encoded. */
  readonly path: string
  readonly query: URLSearchParams
  /** Parsed JSON; `undefined`: none. */
  readonly body: unknown
  readonly status: number
  readonly answer: unknown
}

/** Answers that every operation may have. */
const ALWAYS = new Set([301, 307, 401, 403, 404, 429, 500, 502, 503])

const isRecord = (value: unknown): value is Schema => typeof value === "object" && value !== null && !Array.isArray(value)

/** The definitions with no other fields than described. */
const closed = (schema: unknown, isNullable: boolean): unknown => {
  if (Array.isArray(schema)) return schema.map((one) => closed(one, isNullable))
  if (!isRecord(schema)) return schema
  const inner = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if (key === "$ref") return [key, `#/definitions/${String(value).split("/").at(-1)}`]
      if (key === "properties" && isRecord(value)) {
        return [
          key,
          Object.fromEntries(
            Object.entries(value).map(([name, one]) => [
              name,
              isNullable ? { anyOf: [closed(one, isNullable), { type: "null" }] } : closed(one, isNullable)
            ])
          )
        ]
      }
      return [key, closed(value, isNullable)]
    })
  )
  return "properties" in schema ? { ...inner, additionalProperties: false } : inner
}

const isOfType = (value: string, { enum: words, type }: Parameter): boolean =>
  type === "integer"
    ? /^-?\d+$/u.test(value)
    : type === "boolean"
    ? /^(?:true|false)$/u.test(value)
    : value !== "" && (words === undefined || words.includes(value))

/** Branches have slashes. */
const patternOf = (path: string) =>
  new RegExp(`^${path.replaceAll(/\{(\w+)\}/gu, (_, name: string) => `(?<${name}>${name === "branch" ? ".+" : "[^/]+"})`)}$`, "u")

/** `problems` lists what is not as described; the names of operations are as in the file, such as `get /user`. */
export const load = (flavour: Flavour) => {
  const file = JSON.parse(readFileSync(new URL("api.json", import.meta.url), "utf8")) as Readonly<Record<Flavour, Described>>
  const { definitions, paths, source } = file[flavour]
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false })
  const compiled = new Map<string, ValidateFunction>()
  const validate = (schema: Schema, isNullable: boolean, value: unknown): ReadonlyArray<string> => {
    const key = JSON.stringify([schema, isNullable])
    const known = compiled.get(key) ?? ajv.compile({
      ...isNullable ? { anyOf: [closed(schema, true), { type: "null" }] } : closed(schema, false) as Schema,
      definitions: closed(definitions, isNullable)
    })
    compiled.set(key, known)
    return known(value) ?
      [] :
      (known.errors ?? []).map(({ instancePath, message = "", params }) => `${instancePath} ${message} ${JSON.stringify(params)}`)
  }
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, method, pattern: patternOf(path), path, operation }))
  ).sort((a, b) => a.path.split("{").length - b.path.split("{").length)

  const find = (method: string, path: string) => operations.find((one) => one.method === method.toLowerCase() && one.pattern.test(path))

  const problemsOfRequest = ({ body, path, query }: Exchange, { operation, pattern }: NonNullable<ReturnType<typeof find>>) => {
    const groups = pattern.exec(path)?.groups ?? {}
    const described = new Map(operation.parameters.filter((one) => one.in === "query").map((one) => [one.name, one]))
    const bodies = operation.parameters.filter((one) => one.in === "body")
    return [
      ...operation.parameters.filter((one) => one.in === "path" && !isOfType(groups[one.name] ?? "", one)).map(({ name }) =>
        `${name} in the path`
      ),
      ...[...query].flatMap(([name, value]) => {
        const one = described.get(name)
        return one === undefined ? [`unknown parameter ${name}`] : isOfType(value, one) ? [] : [`parameter ${name}=${value}`]
      }),
      ...body !== undefined && bodies.length === 0 ? ["a body that is not described"] : [],
      ...bodies.flatMap(({ required = false, schema = {} }) =>
        body === undefined ? (required ? ["no body"] : []) : validate(schema, false, body)
      )
    ]
  }

  return {
    source,
    /** The names of all described operations. */
    operations: operations.map(({ name }) => name),
    /** The name of the described operation; `undefined`: the operation is not described. */
    operationOf: (method: string, path: string): string | undefined => find(method, path)?.name,
    problems: (exchange: Exchange): ReadonlyArray<string> => {
      const found = find(exchange.method, exchange.path)
      if (found === undefined) return [`${exchange.method} ${exchange.path} is no operation of ${flavour}'s description`]
      const response = found.operation.responses[exchange.status]
      const answered = response === undefined
        ? ALWAYS.has(exchange.status) ? [] : [`status ${exchange.status}`]
        : response.schema === undefined
        ? []
        : validate(response.schema, true, exchange.answer)
      return [
        ...problemsOfRequest(exchange, found),
        ...answered
      ].map((problem) => `${found.name}: ${problem}`)
    }
  }
}
