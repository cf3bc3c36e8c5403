/**
 * The schemas of Kubernetes's objects, as JSON schemas that refuse unknown fields, which is `fieldValidation=Strict` of an API server. They
 * are read from the declarations of `kubernetes-types`, which are made of the OpenAPI documents of those versions: an interface for each of
 * their definitions. Those of the newest version are in a file.
 */
import { Ajv, type ErrorObject } from "ajv"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import path from "node:path"

type Json = Readonly<Record<string, unknown>>

type Definitions = Readonly<Record<string, Json>>

/** Reads a module, such as `core/v1`, into `definitions`. Returns the modules that it names. */
const read = (folder: string, module: string, definitions: Record<string, Json>): ReadonlyArray<string> => {
  const named: Array<string> = []
  const text = readFileSync(path.join(folder, `${module}.d.ts`), "utf8").replaceAll(/\/\*\*[\s\S]*?\*\//gu, "")
  const imported = new Map<string, string>()
  for (const [, names = "", from = ""] of text.matchAll(/import \{([^}]*)\} from "([^"]+)"/gu)) {
    const other = path.join(path.dirname(module), from)
    for (const name of names.split(",")) imported.set(name.trim(), other)
    named.push(other)
  }
  const schemaOf = (type: string): Json => {
    const alternatives = type.split(" | ")
    if (alternatives.length > 1) return { anyOf: alternatives.map(schemaOf) }
    const [, item] = /^Array<(.*)>$/u.exec(type) ?? /^(.*)\[\]$/u.exec(type) ?? []
    if (item !== undefined) return { type: "array", items: schemaOf(item) }
    const [, value] = /^\{\s*\[name: string\]: (.*);\s*\}$/su.exec(type) ?? []
    if (value !== undefined) return { type: "object", additionalProperties: schemaOf(value) }
    const [, literal] = /^"(.*)"$/u.exec(type) ?? []
    if (literal !== undefined) return { const: literal }
    if (type === "string" || type === "number" || type === "boolean") return { type }
    if (type === "any" || type === "object") return {}
    return { $ref: `#/$defs/${`${imported.get(type) ?? module}.${type}`.replaceAll("/", ":")}` }
  }
  for (const [, name = "", body = ""] of text.matchAll(/^export interface (\w+) \{\n([\s\S]*?)^\}/gmu)) {
    const properties: Record<string, Json> = {}
    const required: Array<string> = []
    const answered: Record<string, Json> = {}
    const fields = body.matchAll(/^ {4}(readonly )?"?([\w$-]+)"?(\?)?: (\{[\s\S]*?^ {4}\}|.*?);$/gmu)
    for (const [, fixed, field = "", optional, type = ""] of fields) {
      // The server sets these alone: we read them and never send them.
      if (fixed !== undefined) answered[field] = schemaOf(type)
      else {
        properties[field] = schemaOf(type)
        if (optional === undefined) required.push(field)
      }
    }
    definitions[`${module}.${name}`.replaceAll("/", ":")] = {
      type: "object",
      properties,
      answered,
      required,
      additionalProperties: false
    }
  }
  for (const [, name = "", type = ""] of text.matchAll(/^export (?:declare )?type (\w+) = (.*);$/gmu)) {
    definitions[`${module}.${name}`.replaceAll("/", ":")] = schemaOf(type)
  }
  return named
}

/** The definitions of a package of declarations. */
const ofDeclarations = (version: string): Definitions => {
  const folder = path.dirname(createRequire(import.meta.url).resolve(`kubernetes-types-${version}/package.json`))
  const definitions: Record<string, Json> = {}
  const known = new Set<string>()
  const pending = ["core/v1", "meta/v1", "networking/v1", "authorization/v1", "rbac/v1"]
  for (let module = pending.pop(); module !== undefined; module = pending.pop()) {
    if (known.has(module)) continue
    known.add(module)
    pending.push(...read(folder, module, definitions))
  }
  return definitions
}

/** The definitions of the newest version, in a file that `scripts/kubernetes-schemas.mjs` writes. */
const ofFile = (version: string): Definitions =>
  JSON.parse(readFileSync(path.join(import.meta.dirname, `kubernetes-${version}.json`), "utf8")).definitions

/** The oldest supported version, two between, and the newest one. */
export const VERSIONS = ["1.26", "1.29", "1.30", "1.36"] as const
export type Version = (typeof VERSIONS)[number]

const definitionsOf = (version: Version): Definitions => version === "1.36" ? ofFile(version) : ofDeclarations(version)

const loaded = new Map<Version, { readonly definitions: Definitions; readonly ajv: Ajv }>()

const load = (version: Version) => {
  const known = loaded.get(version)
  if (known !== undefined) return known
  const definitions = definitionsOf(version)
  const ajv = new Ajv({ strict: false, allErrors: true })
  ajv.addSchema({ $id: "kubernetes", $defs: definitions })
  const made = { definitions, ajv }
  loaded.set(version, made)
  return made
}

/** Where kinds are defined that we send or read: in the declarations, and in the file. */
const PLACES: Readonly<Record<string, readonly [declared: string, filed: string]>> = {
  "v1 Pod": ["core:v1.Pod", "V1Pod"],
  "v1 PodList": ["core:v1.PodList", "V1PodList"],
  "v1 Secret": ["core:v1.Secret", "V1Secret"],
  "v1 ConfigMap": ["core:v1.ConfigMap", "V1ConfigMap"],
  "v1 Event": ["core:v1.Event", "CoreV1Event"],
  "v1 Namespace": ["core:v1.Namespace", "V1Namespace"],
  "v1 ServiceAccount": ["core:v1.ServiceAccount", "V1ServiceAccount"],
  "v1 DeleteOptions": ["meta:v1.DeleteOptions", "V1DeleteOptions"],
  "v1 Status": ["meta:v1.Status", "V1Status"],
  "networking.k8s.io/v1 NetworkPolicy": ["networking:v1.NetworkPolicy", "V1NetworkPolicy"],
  "authorization.k8s.io/v1 SelfSubjectAccessReview": ["authorization:v1.SelfSubjectAccessReview", "V1SelfSubjectAccessReview"]
}

const placeOf = (kind: string, version: Version): string | undefined => PLACES[kind]?.[version === "1.36" ? 1 : 0]

const sentence = ({ instancePath, message = "", params }: ErrorObject): string => `${instancePath} ${message} ${JSON.stringify(params)}`

/** The parts of a body that Kubernetes of these versions would refuse; empty: none. */
export const complaints = (body: unknown, versions: ReadonlyArray<Version> = VERSIONS): ReadonlyArray<string> => {
  if (typeof body !== "object" || body === null) return ["it is no object"]
  const { apiVersion, kind } = { apiVersion: "", kind: "", ...body }
  return versions.flatMap((version) => {
    const place = placeOf(`${String(apiVersion)} ${String(kind)}`, version)
    if (place === undefined) return [`no kind is known as ${String(apiVersion)} ${String(kind)}`]
    const validate = load(version).ajv.getSchema(`kubernetes#/$defs/${place}`)
    if (validate === undefined) throw new Error(`there is no ${place} in Kubernetes ${version}`)
    return validate(body) === true ? [] : (validate.errors ?? []).map((error) => `${version}: ${sentence(error)}`)
  })
}

/** The fields that a schema of ours reads and objects of the kind do not have in this version, or with another type; empty: none. */
export const unknownFields = (ours: Schema.Top, kind: string, version: Version): ReadonlyArray<string> => {
  const { definitions: own, schema } = Schema.toJsonSchemaDocument(ours)
  const { definitions } = load(version)
  const resolved = (from: Definitions, given: Json): Json => {
    const name = typeof given["$ref"] === "string" ? given["$ref"].split("/").at(-1) ?? "" : undefined
    return name === undefined ? given : resolved(from, from[name] ?? {})
  }
  /** The alternatives of a schema, without references. */
  const alternatives = (from: Definitions, given: Json): ReadonlyArray<Json> => {
    const { allOf: _allOf, anyOf, ...rest } = resolved(from, given) as { readonly allOf?: unknown; readonly anyOf?: ReadonlyArray<Json> }
    return anyOf === undefined ? [rest] : anyOf.flatMap((one) => alternatives(from, one))
  }
  const typeOf = ({ type }: Json) => type === "integer" ? "number" : type
  const compare = (mine: Json, theirs: Json, at: string): ReadonlyArray<string> =>
    alternatives(own, mine).flatMap((wanted) => {
      // Read as it is, whatever it is.
      if (wanted["type"] === undefined) return []
      const there = alternatives(definitions, theirs).filter((one) => one["type"] === undefined || typeOf(one) === typeOf(wanted))
      const [found] = there
      if (found === undefined) return [`${at} is no ${String(wanted["type"])}`]
      const fields = Object.entries((wanted["properties"] ?? {}) as Definitions).flatMap(([name, field]) => {
        const other = { ...found["answered"] as Definitions | undefined, ...found["properties"] as Definitions | undefined }[name]
        return other === undefined ? [`${at}.${name} is not there`] : compare(field, other, `${at}.${name}`)
      })
      const items = (wanted["items"] ?? {}) as Json
      const others = (found["items"] ?? {}) as Json
      return wanted["type"] === "array" ? compare(items, others, `${at}[]`) : fields
    })
  const place = placeOf(kind, version)
  if (place === undefined || definitions[place] === undefined) throw new Error(`there is no ${kind} in Kubernetes ${version}`)
  return compare(schema, { $ref: `#/$defs/${place}` }, kind)
}
