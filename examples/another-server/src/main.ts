import { KEY, NAMES, OTHER_KEY, AnotherServer } from "./AnotherServer.ts"

const url = await new AnotherServer().start(Number(process.env["PORT"] ?? 4300))
process.stdout.write(`Listening on ${url}. Keys: ${KEY}, ${OTHER_KEY}. The names for --names:\n${JSON.stringify(NAMES)}\n`)
