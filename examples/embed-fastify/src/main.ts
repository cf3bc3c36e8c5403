import { makeApp } from "./app.ts"

const app = makeApp(process.env["JOURNAL"] ?? "sandboxes.journal")
const address = await app.listen({ port: Number(process.env["PORT"] ?? 4100) })
process.stdout.write(`listening on ${address}\n`)
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void app.close())
