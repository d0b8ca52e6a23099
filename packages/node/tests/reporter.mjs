// A line for each test: passed, skipped or failed, with the reason.

const major = process.versions.node.split('.')[0];

export default async function* lines(events) {
  for await (const { type, data } of events) {
    if (data?.details?.type === 'suite') continue;
    const name = `node ${major}: ${data?.name}`;
    if (type === 'test:pass') {
      const isSkipped = data.skip !== undefined;
      const seconds = (data.details.duration_ms / 1000).toFixed(1);
      yield isSkipped ? `skipped ${name}: ${data.skip}\n` : `ok ${name} (${seconds} s)\n`;
    } else if (type === 'test:fail') {
      const { cause } = data.details.error;
      yield `FAILED ${name}: ${cause?.stack ?? cause ?? data.details.error}\n`;
    } else if (type === 'test:stderr') {
      yield data.message;
    }
  }
}
