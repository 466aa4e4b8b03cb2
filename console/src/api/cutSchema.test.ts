import { expect, test } from "vitest";

import { cutSchema } from "./cutSchema";

const SCHEMAS = {
  Spec: { properties: { note: { type: "string" }, target: { $ref: "#/components/schemas/Target" } } },
  Target: { properties: { inner: { anyOf: [{ $ref: "#/components/schemas/Inner" }, { $ref: "#/components/schemas/Spec" }] } } },
  Inner: { type: "string" },
  Other: { type: "string" },
};

test("a schema is cut out with all that it names, and with nothing else", () => {
  const cut = cutSchema(SCHEMAS, "Spec") as { components: { schemas: object } };
  expect(Object.keys(cut.components.schemas).toSorted()).toEqual(["Inner", "Target"]);
});

test("what fields get besides stands first and leaves the document as it is", () => {
  const cut = cutSchema(SCHEMAS, "Spec", { Spec: { target: { description: "What runs." }, gone: {} } }) as { properties: Record<string, object> };
  expect(Object.keys(cut.properties)).toEqual(["target", "note"]);
  expect(cut.properties.target).toEqual({ $ref: "#/components/schemas/Target", description: "What runs." });
  expect(SCHEMAS.Spec.properties.target).toEqual({ $ref: "#/components/schemas/Target" });
});
