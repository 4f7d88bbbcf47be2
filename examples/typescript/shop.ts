// A team's own stack. A platform team has deployed the pipeline from ../deadletter.json: both know
// each other by names and ARNs alone.
import * as cdk from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import * as ssm from 'aws-cdk-lib/aws-ssm';

export class Shop extends cdk.Stack {
  constructor(scope: cdk.App, id: string) {
    super(scope, id);
    const dlq = new sqs.Queue(this, 'DeadOrders', {
      queueName: 'shop-orders-dlq',
      retentionPeriod: cdk.Duration.days(14),
    });
    const orders = new sqs.Queue(this, 'Orders', {
      queueName: 'shop-orders',
      // Six times the function's timeout, as AWS advises.
      visibilityTimeout: cdk.Duration.seconds(150),
      deadLetterQueue: { queue: dlq, maxReceiveCount: 5 },
    });
    const ship = new lambda.Function(this, 'Ship', {
      functionName: 'shop-ship',
      runtime: lambda.Runtime.PYTHON_3_13,
      handler: 'ship.handler',
      // Packed as docs/consumer.md says.
      code: lambda.Code.fromAsset('package'),
      timeout: cdk.Duration.seconds(25),
      environment: { DEADLETTER: 'off' },
    });
    // Without reportBatchItemFailures, Lambda deletes what the library gives back.
    ship.addEventSource(new SqsEventSource(orders, { reportBatchItemFailures: true }));

    // For trusted_senders in deadletter.json: this stack is deployed first.
    new cdk.CfnOutput(this, 'TrustedSender', { value: (ship.role as iam.Role).roleId });

    // Then the pipeline. Then this stack again, with --context adopted=true.
    if (this.node.tryGetContext('adopted')) {
      const arn = ssm.StringParameter.valueForStringParameter(
        this,
        '/deadletter/policies/orders/consumer',
      );
      ship.role!.addManagedPolicy(iam.ManagedPolicy.fromManagedPolicyArn(this, 'Consumer', arn));
      ship.addEnvironment('DEADLETTER', 'deadletter/orders');
    }
  }
}

const app = new cdk.App();
new Shop(app, 'Shop');
