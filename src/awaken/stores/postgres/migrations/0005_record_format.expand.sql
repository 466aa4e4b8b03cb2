-- Records are written in a format that processes of earlier versions cannot read: they must refuse this schema.
SELECT 1;
