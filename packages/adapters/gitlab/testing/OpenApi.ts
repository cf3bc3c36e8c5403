/** Holds requests and answers to GitLab's published description of its API, of which `openapi.json` has the operations in use. */
import { readFileSync } from "node:fs"

interface Schema {
  readonly $ref?: string
  readonly type?: "array" | "boolean" | "integer" | "object" | "string"
  readonly enum?: ReadonlyArray<number | string>
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly oneOf?: ReadonlyArray<Schema>
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: ReadonlyArray<string>
}

interface Content {
  readonly content?: { readonly "application/json": { readonly schema: Schema } }
}

interface Operation {
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly in: "path" | "query"; readonly schema: Schema }>
  readonly requestBody?: Content
  readonly responses: Readonly<Record<string, Content>>
}

interface Document {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const document: Document = JSON.parse(readFileSync(new URL("./openapi.json", import.meta.url), "utf8"))

/** The version of GitLab whose description this is. */
export const version = document.info.version

export interface Call {
  readonly method: string
  /** With its query. */
  readonly url: string
  /** Parsed JSON; `undefined`: none. */
  readonly body: unknown
}

interface Rules {
  /** GitLab's description does not say which fields of answers can be `null`. */
  readonly allowsNull: boolean
}

const isDate = (text: string): boolean => !Number.isNaN(Date.parse(text))

const scalar = (schema: Schema, value: unknown, at: string): ReadonlyArray<string> => {
  const { enum: values, format, maximum, minimum, type } = schema
  if (type === "integer" ? !Number.isSafeInteger(value) : typeof value !== type) return [`${at} is no ${type}`]
  if (values !== undefined && !values.includes(value as string)) return [`${at} is not one of ${values.join(", ")}`]
  if (format === "date-time" && !(isDate(String(value)) && String(value).includes("T"))) return [`${at} is no time`]
  if (format === "date" && !/^\d{4}-\d\d-\d\d$/u.test(String(value))) return [`${at} is no date`]
  if (typeof value === "number" && (value < (minimum ?? -Infinity) || value > (maximum ?? Infinity))) return [`${at} is out of range`]
  return []
}

/** Problems of the value. */
const problemsOf = (schema: Schema, value: unknown, at: string, rules: Rules): ReadonlyArray<string> => {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split("/").at(-1) ?? ""
    return problemsOf(document.components.schemas[name] ?? {}, value, at, rules)
  }
  if (value === null && rules.allowsNull) return []
  if (schema.oneOf !== undefined) {
    const all = schema.oneOf.map((one) => problemsOf(one, value, at, rules))
    return all.some((problems) => problems.length === 0) ? [] : all[0] ?? []
  }
  if (schema.type === "array") {
    if (!Array.isArray(value)) return [`${at} is no list`]
    const { items } = schema
    return items === undefined ? [] : value.flatMap((item, i) => problemsOf(items, item, `${at}[${i}]`, rules))
  }
  if (schema.type !== "object") return schema.type === undefined ? [] : scalar(schema, value, at)
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${at} is no object`]
  const { properties, required = [] } = schema
  if (properties === undefined) return []
  return [
    ...required.filter((name) => !Object.hasOwn(value, name)).map((name) => `${at} lacks ${name}`),
    ...Object.entries(value).flatMap(([name, field]) => {
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (field === undefined) return []
      return known === undefined ? [`${at} has an unknown field ${name}`] : problemsOf(known, field, `${at}.${name}`, rules)
    })
  ]
}

/** A value of a path or query, which is text there. */
const textProblems = (schema: Schema, text: string, at: string): ReadonlyArray<string> => {
  if (schema.oneOf !== undefined) {
    return schema.oneOf.some((one) => textProblems(one, text, at).length === 0)
      ? []
      : [`${at} has no allowed form`]
  }
  const value = schema.type === "integer" && /^-?\d+$/u.test(text)
    ? Number(text)
    : schema.type === "boolean" && /^(?:true|false)$/u.test(text)
    ? text === "true"
    : text
  return problemsOf(schema, value, at, { allowsNull: false })
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/[.*+?^$()|[\]\\]/gu, "\\$&").replaceAll(/\{(\w+)\}/gu, "(?<$1>[^/]+)")}$`, "u")

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(),
    path,
    pattern: patternOf(path),
    operation,
    parts: path.split("/").filter((part) => !part.startsWith("{")).length
  }))
  // `/members/all/1` also fits `/members/{name}`.
).sort((a, b) => b.parts - a.parts)

/** The name of an operation, such as `GET /api/v4/user`. */
export const names: ReadonlyArray<string> = operations.map(({ method, path }) => `${method} ${path}`)

const find = ({ method, url }: Pick<Call, "method" | "url">) => {
  const { pathname } = new URL(url, "http://localhost")
  const found = operations.find((one) => one.method === method && one.pattern.test(pathname))
  return found === undefined ? null : { ...found, name: `${method} ${found.path}`, inPath: found.pattern.exec(pathname)?.groups ?? {} }
}

/** The operation and what is wrong with the request. */
export const checkRequest = (call: Call): { readonly name: string | null; readonly problems: ReadonlyArray<string> } => {
  const found = find(call)
  if (found === null) return { name: null, problems: [`${call.method} ${call.url} is no operation in use`] }
  const { inPath, name, operation } = found
  const { searchParams } = new URL(call.url, "http://localhost")
  const parameter = (where: "path" | "query", named: string) => operation.parameters.find((one) => one.in === where && one.name === named)
  const problems = [
    ...Object.entries(inPath).flatMap(([named, text]) => {
      const known = parameter("path", named)
      return known === undefined ? [] : textProblems(known.schema, decodeURIComponent(text), `${name}: ${named}`)
    }),
    ...[...searchParams].flatMap(([named, text]) => {
      const known = parameter("query", named)
      return known === undefined ? [`${name} has an unknown parameter ${named}`] : textProblems(known.schema, text, `${name}: ${named}`)
    })
  ]
  const schema = operation.requestBody?.content?.["application/json"].schema
  if (schema !== undefined) problems.push(...problemsOf(schema, call.body ?? {}, `${name}: body`, { allowsNull: false }))
  else if (call.body !== undefined) problems.push(`${name} takes no body`)
  return { name, problems }
}

/** Problems of a successful answer. */
export const checkAnswer = (call: Pick<Call, "method" | "url">, status: number, body: unknown): ReadonlyArray<string> => {
  const found = find(call)
  if (found === null || status < 200 || status > 299) return []
  const documented = found.operation.responses[String(status)]
  if (documented === undefined) return [`${found.name} does not answer with ${status}`]
  const schema = documented.content?.["application/json"].schema
  return schema === undefined ? [] : problemsOf(schema, JSON.parse(JSON.stringify(body)), `${found.name}: answer`, { allowsNull: true })
}
