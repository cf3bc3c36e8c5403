/**
 * The schemas of Kubernetes's objects, as JSON schemas that refuse unknown fields, which is `fieldValidation=Strict` of an API server. They
 * are read from the declarations of `kubernetes-types`, which are made of the OpenAPI document of Kubernetes 1.30: an interface for each of
 * its definitions.
 */
import { Ajv, type ErrorObject } from "ajv"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import path from "node:path"

type Json = Readonly<Record<string, unknown>>

const folder = path.dirname(createRequire(import.meta.url).resolve("kubernetes-types-1.30/package.json"))

const definitions: Record<string, Json> = {}

/** Reads a module, such as `core/v1`, and all that it names. */
const read = (module: string, read: Set<string>): void => {
  if (read.has(module)) return
  read.add(module)
  const text = readFileSync(path.join(folder, `${module}.d.ts`), "utf8").replaceAll(/\/\*\*[\s\S]*?\*\//gu, "")
  const imported = new Map<string, string>()
  for (const [, names = "", from = ""] of text.matchAll(/import \{([^}]*)\} from "([^"]+)"/gu)) {
    const other = path.join(path.dirname(module), from)
    for (const name of names.split(",")) imported.set(name.trim(), other)
    readLater.push(other)
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
    for (const [, field = "", optional, type = ""] of body.matchAll(/^ {4}"?([\w$-]+)"?(\?)?: (\{[\s\S]*?^ {4}\}|.*?);$/gmu)) {
      properties[field] = schemaOf(type)
      if (optional === undefined) required.push(field)
    }
    definitions[`${module}.${name}`.replaceAll("/", ":")] = { type: "object", properties, required, additionalProperties: false }
  }
  for (const [, name = "", type = ""] of text.matchAll(/^export (?:declare )?type (\w+) = (.*);$/gmu)) {
    definitions[`${module}.${name}`.replaceAll("/", ":")] = schemaOf(type)
  }
}

const readLater = ["core/v1", "meta/v1", "networking/v1", "authorization/v1", "rbac/v1"]
const known = new Set<string>()
for (let module = readLater.pop(); module !== undefined; module = readLater.pop()) read(module, known)

const ajv = new Ajv({ strict: false, allErrors: true })
ajv.addSchema({ $id: "kubernetes", $defs: definitions })

/** Where kinds are defined that tests send or write. */
const PLACES: Readonly<Record<string, string>> = {
  "v1 Pod": "core:v1.Pod",
  "v1 Secret": "core:v1.Secret",
  "v1 ConfigMap": "core:v1.ConfigMap",
  "v1 Namespace": "core:v1.Namespace",
  "v1 ServiceAccount": "core:v1.ServiceAccount",
  "v1 DeleteOptions": "meta:v1.DeleteOptions",
  "networking.k8s.io/v1 NetworkPolicy": "networking:v1.NetworkPolicy",
  "authorization.k8s.io/v1 SelfSubjectAccessReview": "authorization:v1.SelfSubjectAccessReview"
}

const sentence = ({ instancePath, message = "", params }: ErrorObject): string => `${instancePath} ${message} ${JSON.stringify(params)}`

/** The parts of a body that Kubernetes would refuse; empty: none. */
export const complaints = (body: unknown): ReadonlyArray<string> => {
  if (typeof body !== "object" || body === null) return ["it is no object"]
  const { apiVersion, kind } = { apiVersion: "", kind: "", ...body }
  const place = PLACES[`${String(apiVersion)} ${String(kind)}`]
  if (place === undefined) return [`no kind is known as ${String(apiVersion)} ${String(kind)}`]
  const validate = ajv.getSchema(`kubernetes#/$defs/${place}`)
  if (validate === undefined) throw new Error(`there is no ${place} in kubernetes-types`)
  return validate(body) === true ? [] : (validate.errors ?? []).map(sentence)
}
