/** docs/events.md: every event, its fields and an example, from the schemas that the OpenAPI document has of them. */
import { schemas } from "./openapi.mjs"

/** Where a type that has a name is explained. */
const EXPLAINED = {
  Timestamp: "timestamp",
  Sandbox: "[Sandbox](interface.md#21-sandbox)",
  Usage: "[Usage](interface.md#23-usage)",
  PullRequest: "[pull request](interface.md#25-pull-request-status)"
}

const plain = (text) => text.replaceAll(/[<|]/gu, "\\$&")

const typeOf = (schema) => {
  if (schema.$ref !== undefined) return EXPLAINED[schema.$ref.split("/").at(-1)] ?? typeOf(schemas[schema.$ref.split("/").at(-1)])
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(" or ")
  if (schema.allOf !== undefined) return schema.allOf.map(typeOf).join(", ")
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(", ")
  if (schema.type === "array") return schema.items?.not !== undefined ? "array" : `array of ${typeOf(schema.items)}`
  return schema.type ?? "any"
}

/** The object that a field is, or has in its list, unless it is explained elsewhere. */
const within = (schema) => {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split("/").at(-1)
    return name in EXPLAINED ? undefined : within(schemas[name])
  }
  if (schema.anyOf !== undefined) return schema.anyOf.map(within).find((inner) => inner !== undefined)
  if (schema.type === "array") return schema.items === undefined ? undefined : within(schema.items)
  return schema.properties === undefined ? undefined : schema
}

const textOf = (schema) => JSON.stringify(schema?.properties)

/** The event whose `data` a list of the snapshot repeats: its fields are in the section of that event. */
const repeated = (schema) =>
  schema.type === "array" && within(schema) !== undefined
    ? Object.entries(schemas.SandboxEventEnvelope.discriminator.mapping)
      .find(([, $ref]) => textOf(schemas[$ref.split("/").at(-1)].properties.data) === textOf(within(schema)))?.[0]
    : undefined

const rows = ({ properties, required = [] }, before = "") =>
  Object.entries(properties).flatMap(([name, schema]) => {
    const event = repeated(schema)
    const inner = event === undefined ? within(schema) : undefined
    const at = `${before}${name}`
    const type = event === undefined ? typeOf(schema) : `array of the \`data\` of [${event}](#${event.replace(".", "")})`
    return [
      `| \`${at}\`${required.includes(name) ? "" : "?"} | ${type} | ${plain(schema.description ?? "")} |`,
      ...(inner === undefined ? [] : rows(inner, `${at}.`))
    ]
  })

const section = ([type, $ref]) => {
  const { examples: [example], properties, required } = schemas[$ref.split("/").at(-1)]
  const kept = properties.object === undefined || required.includes("id")
    ? ""
    : properties.id === undefined
    ? "Transient: only in streams.\n\n"
    : "Durable, except the first event of a stream, which has only `status` and no `id`.\n\n"
  return `### ${type}\n\n${kept}| \`data\` | type | meaning |\n|---|---|---|\n${rows(properties.data).join("\n")}\n\n` +
    `\`\`\`json\n${JSON.stringify(example.data, null, 2)}\n\`\`\``
}

const sections = (union) => Object.entries(schemas[union].discriminator.mapping).map(section).join("\n\n")

const INTRODUCTION = `# Events

For authors of programs that read events. After reading this page you know the fields of each event and have an example of it.

The page lists every event with its \`data\`, as the OpenAPI document has them; \`npm run docs:reference\` writes it. The fields around
\`data\` are in [interface 2.4a](interface.md#24a-event-envelope) and [2.7](interface.md#27-partner-event). The order of events, their
rate and how long they are kept are in [decisions 5](decisions/05-events.md) and
[11.3](decisions/11-partner-feed.md#113-the-feed). \`?\` marks a field that is left out when it has no value. Types and fields may be
added: ignore those that you do not know.`

export const events = () =>
  [
    INTRODUCTION,
    "## Events of a sandbox",
    sections("SandboxEventEnvelope"),
    "## Events of the partner feed",
    `${sections("PartnerEvent")}\n`
  ].join("\n\n")
