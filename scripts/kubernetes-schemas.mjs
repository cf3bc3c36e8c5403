/**
 * Writes the schemas of Kubernetes's objects that we send or read as one small JSON file, for the tests of @slipway/kubernetes:
 *
 *     npm install --prefix FOLDER @kubernetes/client-node
 *     node scripts/kubernetes-schemas.mjs FOLDER
 *
 * The client's models are made of the OpenAPI document of the newest Kubernetes (Apache-2.0). Descriptions are left out.
 */
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { pathToFileURL } from "node:url"

const ROOTS = ["V1Pod", "V1PodList", "V1Secret", "V1SecretList", "V1ConfigMap", "V1ConfigMapList", "CoreV1Event", "CoreV1EventList",
  "V1Namespace", "V1ServiceAccount", "V1NetworkPolicy", "V1NetworkPolicyList", "V1SelfSubjectAccessReview", "V1DeleteOptions", "V1Status",
  "VersionInfo"]

const client = path.join(process.argv[2] ?? "", "node_modules/@kubernetes/client-node")
const models = path.join(client, "dist/gen/models")
const { version } = JSON.parse(readFileSync(path.join(client, "package.json"), "utf8"))

const definitions = {}
let release

const schemaOf = (type) => {
  const item = /^(?:Array|Set)<(.*)>$/u.exec(type)?.[1]
  if (item !== undefined) return { type: "array", items: schemaOf(item) }
  const value = /^\{ \[key: string\]: (.*); \}$/u.exec(type)?.[1]
  if (value !== undefined) return { type: "object", additionalProperties: schemaOf(value) }
  if (type === "IntOrString") return { anyOf: [{ type: "number" }, { type: "string" }] }
  if (type === "Date" || type === "V1MicroTime") return { type: "string" }
  if (["string", "number", "boolean"].includes(type)) return { type }
  if (type === "any") return {}
  if (!(type in definitions)) pending.push(type)
  return { $ref: `#/$defs/${type}` }
}

const pending = [...ROOTS]
for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
  if (name in definitions) continue
  const declared = readFileSync(path.join(models, `${name}.d.ts`), "utf8")
  release ??= /OpenAPI spec version: release-(\S+)/u.exec(declared)?.[1]
  const model = (await import(pathToFileURL(path.join(models, `${name}.js`)).href))[name]
  const properties = {}
  definitions[name] = { type: "object", properties, additionalProperties: false }
  const required = []
  for (const { baseName, name: field, type } of model.getAttributeTypeMap()) {
    properties[baseName] = schemaOf(type)
    if (declared.includes(`    '${field}': `)) required.push(baseName)
  }
  if (required.length > 0) definitions[name].required = required
}

const file = path.join(import.meta.dirname, `../packages/adapters/kubernetes/test/kubernetes-${release}.json`)
const sorted = Object.entries(definitions).toSorted(([a], [b]) => a < b ? -1 : 1)
const about = `Kubernetes ${release}, by @kubernetes/client-node ${version} (Apache-2.0). Written by scripts/kubernetes-schemas.mjs.`
const lines = sorted.map(([name, schema]) => `  ${JSON.stringify(name)}: ${JSON.stringify(schema)}`)
writeFileSync(file, `{\n"about": ${JSON.stringify(about)},\n"definitions": {\n${lines.join(",\n")}\n}\n}\n`)
process.stdout.write(`${path.relative(process.cwd(), file)}: ${sorted.length} schemas\n`)
