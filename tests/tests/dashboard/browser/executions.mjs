// An instance that has continued as new: each execution has a timeline of its own.

import { call, instance, see, until } from './kit/actions.mjs';

export default async function scenario(stage) {
  await call(stage.world, 'POST', '/v1/orchestrations/rounds/instances', { id: 'rounds-1', inputText: '3' });
  await until('it has ended', async () => (await call(stage.world, 'GET', '/v1/instances/rounds-1?wait=20')).status === 'Completed');
  const page = await stage.open(instance('rounds-1', 'executions'));
  await see(page, 'Continued as new');
  await page.goto(`${stage.world.api}/${instance('rounds-1', 'events')}?execution=2`);
  await see(page, /ContinuedAsNew|Continued as new/);
  stage.expect(/status of 404/);
  await page.goto(`${stage.world.api}/${instance('rounds-1')}?execution=9`);
  await see(page, 'There is no execution 9');
}
