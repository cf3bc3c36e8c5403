/** One request to a model, read from any of the three protocols into what a script needs to know. */
import * as Directives from "./Directives.ts"

export type Protocol = "openai-chat" | "openai-responses" | "anthropic-messages"

/** A tool the agent offers, under the name it wants to hear. */
export interface OfferedTool {
  readonly name: string
  readonly namespace: string | undefined
  /** `custom`: takes free text instead of JSON. */
  readonly kind: "function" | "custom"
  /** Names of its parameters. */
  readonly parameters: ReadonlyArray<string>
}

export interface Call {
  readonly protocol: Protocol
  readonly model: string
  readonly streaming: boolean
  readonly effort: string | null
  readonly tools: ReadonlyArray<OfferedTool>
  /** Prompts with directives in them, oldest first: the last one is the script. */
  readonly prompts: ReadonlyArray<string>
  /** On the agent's own account, as for a title: no part of the conversation. */
  readonly hidden: boolean
  /** Codex alone: a command that is to write must ask to leave its sandbox, except where it may not ask. */
  readonly escalates: boolean
  /** Results of tool calls since the last prompt: how far the script has come. */
  readonly results: ReadonlyArray<string>
}

type Json = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)
const records = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isRecord) : [])
const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : records(content)
      .map(({ text }) => (typeof text === "string" ? text : ""))
      .join("\n")

/** Texts of a message, one by one: after a failure some agents put the next prompt into the message of the one before. */
const textsOf = (content: unknown): ReadonlyArray<string> =>
  typeof content === "string" ? [content] : records(content).flatMap(({ text }) => (typeof text === "string" ? text : []))

const offered = (tool: Json, schema: unknown, namespace?: string): OfferedTool => ({
  name: String(tool["name"] ?? tool["type"]),
  namespace,
  kind: tool["type"] === "custom" ? "custom" : "function",
  parameters: isRecord(schema) && isRecord(schema["properties"]) ? Object.keys(schema["properties"]) : []
})

/** Collects what was said in order: a prompt with a script in it begins anew. */
const conversation = () => {
  const prompts: Array<string> = []
  let results: Array<string> = []
  return {
    user: (content: unknown) => {
      for (const text of textsOf(content)) {
        if (Directives.parse(text).length === 0) continue
        prompts.push(text)
        results = []
      }
    },
    result: (content: unknown) => results.push(textOf(content) || JSON.stringify(content ?? "")),
    end: () => ({ prompts, results })
  }
}

const readers: Record<Protocol, (body: Json) => Pick<Call, "effort" | "tools" | "prompts" | "results">> = {
  "openai-chat": (body) => {
    const talk = conversation()
    for (const message of records(body["messages"])) {
      if (message["role"] === "user") talk.user(message["content"])
      if (message["role"] === "tool") talk.result(message["content"])
    }
    const tools = records(body["tools"]).map((tool) => {
      const described = isRecord(tool["function"]) ? tool["function"] : tool
      return offered({ name: described["name"], type: "function" }, described["parameters"])
    })
    const effort = body["reasoning_effort"]
    return { effort: typeof effort === "string" ? effort : null, tools, ...talk.end() }
  },

  "openai-responses": (body) => {
    const talk = conversation()
    const input = typeof body["input"] === "string" ? [{ role: "user", content: body["input"] }] : records(body["input"])
    for (const item of input) {
      if (item["role"] === "user") talk.user(item["content"])
      else if (String(item["type"]).endsWith("_output")) talk.result(item["output"])
    }
    // Some models are given their tools within the input.
    const additional = records(body["input"]).filter(({ type }) => type === "additional_tools")
    const tools = [...records(body["tools"]), ...additional.flatMap(({ tools }) => records(tools))].flatMap((tool) =>
      tool["type"] === "namespace"
        ? records(tool["tools"]).map((inner) => offered(inner, inner["parameters"], String(tool["name"])))
        : offered(tool, tool["parameters"])
    )
    const effort = isRecord(body["reasoning"]) ? body["reasoning"]["effort"] : undefined
    return { effort: typeof effort === "string" ? effort : null, tools, ...talk.end() }
  },

  "anthropic-messages": (body) => {
    const talk = conversation()
    for (const { content, role } of records(body["messages"])) {
      // claude puts its turn's steering message into a system message.
      if (role === "system") talk.user(content)
      if (role !== "user") continue
      talk.user(content)
      for (const block of records(content)) if (block["type"] === "tool_result") talk.result(block["content"])
    }
    const tools = records(body["tools"]).map((tool) => offered({ name: tool["name"], type: "function" }, tool["input_schema"]))
    const effort = isRecord(body["output_config"]) ? body["output_config"]["effort"] : undefined
    return { effort: typeof effort === "string" ? effort : null, tools, ...talk.end() }
  }
}

export const read = (protocol: Protocol, body: unknown): Call => {
  const json = isRecord(body) ? body : {}
  const call = readers[protocol](json)
  return {
    protocol,
    model: String(json["model"] ?? ""),
    streaming: json["stream"] === true,
    hidden: call.tools.length === 0 ? call.prompts.length === 0 : call.tools.every(({ name }) => name === "session_title"),
    escalates: !JSON.stringify(json["input"] ?? "").includes("Approval policy is currently never"),
    ...call
  }
}
